// Layers whose weights are spread over the workers, with the bits of the whole layer: output,
// gradient of the input, and gradients of the weights, each worker those of its part.
//
//   ColumnLinear    rows of the weight, so columns of the output. y is exact as it is; dx goes
//                   through the workers as one chain (chain.h)
//   RowLinear       columns of the weight, so parts of the input. y is one chain; dx is exact
//   RowEmbedding    rows of the table; each result is the row of the one worker that has it
//   ColumnEmbedding columns of the table
//
// Every worker calls a layer with the same x, or, where x is what a ColumnLinear{.whole = false}
// gave, with its own part. The graph is the same on all of them, so their collectives meet.
// Products that go through a chain are computed by the CPU, also where tensors are on a GPU.
#pragma once

#include "planck/dist/all_reduce.h"
#include "planck/dist/grains.h"
#include "planck/dist/split/chain.h"
#include "planck/nn/layers.h"
#include "planck/nn/linear.h"

namespace planck::dist {

// This worker's part of n rows or columns.
inline Range part_of(const Communicator& workers, std::int64_t n) {
  return {n * workers.rank() / workers.size(), n * (workers.rank() + 1) / workers.size()};
}

// Each of `count` indices is elsewhere for all workers but one: how many are for all.
std::int64_t nowhere(Communicator& workers, std::int64_t elsewhere, std::int64_t count);
// The sum, bit by bit, of words of which all workers but one have zeros.
void join_bits(Communicator& workers, std::span<std::byte> bytes);

namespace detail {

template <class B>
std::vector<std::byte> to_host(const Tensor<B>& t) {
  std::vector<std::byte> bytes(bytes_for(t.dtype(), t.numel()));
  B::to_host(t.primitive(), bytes.data());
  return bytes;
}
template <class B>
Tensor<B> from_host(const std::vector<std::byte>& bytes, const Shape& shape,
                    const Tensor<B>& like) {
  return Tensor<B>(
      B::template from_host<FloatKind>(like.device(), like.dtype(), shape, bytes.data()));
}

// Parts of the last axis of [m, …], one after the other.
template <class B>
Tensor<B> gathered_last(Communicator& workers, const Tensor<B>& x) {
  const std::int64_t m = x.extent(0);
  std::vector<Tensor<B>> parts;
  for (const auto& bytes : gather_all(workers, to_host(x))) {
    const std::size_t row = std::max<std::size_t>(bytes_for(x.dtype(), m), 1);
    const auto width = static_cast<std::int64_t>(bytes.size() / row);
    parts.push_back(from_host(bytes, {m, width}, x));
  }
  return cat(parts, 1);
}
// As matmul(a, b) of the whole, so with the meaning that the stream of a says.
template <class B>
Tensor<B> chained(Communicator& workers, const Tensor<B>& a, const Tensor<B>& b) {
  const auto left = to_host(a), right = to_host(b);
  const std::int64_t m = a.extent(0), n = b.extent(1);
  ProductMath math = default_product_math(a.dtype());
  if constexpr (std::same_as<typename B::Device, Stream>) math = a.device().product_math(a.dtype());
  std::vector<std::byte> c(bytes_for(a.dtype(), m * n));
  multiply(workers, {a.dtype(), math, m, n, a.extent(1), left.data(), right.data(), c.data()});
  return from_host(c, {m, n}, a);
}

}  // namespace detail

// Ops on matrices. Their gradients are collectives, too.
struct GatherLast {  // [m, part] → [m, n]
  static constexpr std::string_view name = "gather_last";
  static constexpr bool computes = true;
  Communicator* workers;
  Range part;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    return detail::gathered_last(*workers, x);
  }
};
template <class R>
auto pullback(const GatherLast& op, const R&) {
  return [op](auto& g) { g.give(slice(g.dy(), 1, op.part.first, op.part.end)); };
}
struct SplitLast {  // [m, n] → [m, part]
  static constexpr std::string_view name = "split_last";
  static constexpr bool computes = true;
  Communicator* workers;
  Range part;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    return slice(x, 1, part.first, part.end);
  }
};
template <class R>
auto pullback(const SplitLast& op, const R&) {
  return [op](auto& g) { g.give(detail::gathered_last(*op.workers, g.dy())); };
}
struct RowProduct {  // k is spread: [m, part] × [part, n] → [m, n]
  static constexpr std::string_view name = "row_product";
  static constexpr bool computes = true;
  Communicator* workers;
  template <class B>
  Tensor<B> compute(const Tensor<B>& a, const Tensor<B>& b) const {
    return detail::chained(*workers, a, b);
  }
};
template <class R>
auto pullback(const RowProduct&, const R& r) {
  return [a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0))](auto& g) {
    if (g.needs(0)) g.give(0, matmul(g.dy(), transpose(g[b])));
    if (g.needs(1)) g.give(1, matmul(transpose(g[a]), g.dy()));
  };
}
struct ColumnProduct {  // n is spread: [m, k] × [k, part] → [m, part]
  static constexpr std::string_view name = "column_product";
  static constexpr bool computes = true;
  Communicator* workers;
  template <class B>
  Tensor<B> compute(const Tensor<B>& a, const Tensor<B>& b) const {
    return matmul(a, b);
  }
};
template <class R>
auto pullback(const ColumnProduct& op, const R& r) {
  return [op, a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0))](auto& g) {
    if (g.needs(0)) g.give(0, detail::chained(*op.workers, g.dy(), transpose(g[b])));
    if (g.needs(1)) g.give(1, matmul(transpose(g[a]), g.dy()));
  };
}
struct JoinRows {  // rows that one worker has, and zeros on all others
  static constexpr std::string_view name = "join_rows";
  static constexpr bool computes = true;
  Communicator* workers;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    auto bytes = detail::to_host(x);
    join_bits(*workers, bytes);
    return detail::from_host(bytes, x.shape(), x);
  }
};
template <class R>
auto pullback(const JoinRows&, const R&) {
  return [](auto& g) { g.give(g.dy()); };
}

namespace detail {
// f on x seen as a matrix, whatever its rank.
template <class B, class F>
Tensor<B> as_matrix(const Tensor<B>& x, const F& f) {
  Shape shape = x.shape();
  const Tensor<B> y = f(reshape(x, {-1, x.extent(-1)}));
  shape[x.rank() - 1] = y.extent(1);
  return reshape(y, shape);
}
}  // namespace detail

// What all of these layers are; split_state.h saves and loads by it.
struct SplitLayer {
  Communicator* workers;
  std::int64_t extent;  // rows or columns of the whole layer's weight
  Range part;           // of them, this worker's
  int weight_axis;      // 0: rows
  bool splits_bias = false;

  SplitLayer(Communicator& c, std::int64_t n, int axis, bool with_bias = false)
      : workers(&c), extent(n), part(part_of(c, n)), weight_axis(axis), splits_bias(with_bias) {}
};

struct SplitLinearOptions {
  // Column: give the whole output, not this worker's columns. Row: x is whole, not a part.
  bool whole = true;
};

// A whole layer's rows [out / workers, in].
template <class B>
struct ColumnLinear : SplitLayer {
  SplitLinearOptions options;
  nn::Parameter<B> weight;
  std::optional<nn::Parameter<B>> bias;

  ColumnLinear(Communicator& c, const nn::Linear<B>& whole, const SplitLinearOptions& o = {})
      : SplitLayer(c, whole.options.out, 0, true),
        options(o),
        weight(slice(whole.weight.value(), 0, part.first, part.end)) {
    if (whole.bias) bias.emplace(slice(whole.bias->value(), 0, part.first, part.end));
  }
  Tensor<B> operator()(const Tensor<B>& x) const {
    return detail::as_matrix(x, [&](const Tensor<B>& rows) {
      auto y = call(ColumnProduct{workers}, rows, transpose(*weight));
      if (bias) y = y + **bias;
      return options.whole ? call(GatherLast{workers, part}, y) : y;
    });
  }
  void visit(auto&& p) {
    p("weight", weight);
    p("bias", bias);
  }
};

// A whole layer's columns [out, in / workers].
template <class B>
struct RowLinear : SplitLayer {
  SplitLinearOptions options;
  nn::Parameter<B> weight;
  std::optional<nn::Parameter<B>> bias;

  RowLinear(Communicator& c, const nn::Linear<B>& whole, const SplitLinearOptions& o = {})
      : SplitLayer(c, whole.options.in, 1),
        options(o),
        weight(slice(whole.weight.value(), 1, part.first, part.end)) {
    if (whole.bias) bias.emplace(whole.bias->value());
  }
  Tensor<B> operator()(const Tensor<B>& x) const {
    return detail::as_matrix(x, [&](const Tensor<B>& rows) {
      const auto mine = options.whole ? call(SplitLast{workers, part}, rows) : rows;
      const auto y = call(RowProduct{workers}, mine, transpose(*weight));
      return bias ? y + **bias : y;
    });
  }
  void visit(auto&& p) {
    p("weight", weight);
    p("bias", bias);
  }
};

// A whole table's rows.
template <class B>
struct RowEmbedding : SplitLayer {
  nn::Parameter<B> weight;
  std::int64_t padding_idx;

  RowEmbedding(Communicator& c, const nn::Embedding<B>& whole)
      : SplitLayer(c, whole.weight->extent(0), 0),
        weight(slice(whole.weight.value(), 0, part.first, part.end)),
        padding_idx(whole.padding_idx) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& indices) const {
    const bool pads = padding_idx >= part.first && padding_idx < part.end;
    const auto [mine, elsewhere] =
        call(Embedding{pads ? padding_idx - part.first : kNoPaddingIndex}, *weight,
             indices - part.first);
    const auto bad = nowhere(*workers, elsewhere.template item<std::int64_t>(), indices.numel());
    refuse_bad({"embedding", "indices", extent}, indices, bad);
    return call(JoinRows{workers}, mine);
  }
  void visit(auto&& p) { p("weight", weight); }
};

// A whole table's columns.
template <class B>
struct ColumnEmbedding : SplitLayer {
  nn::Parameter<B> weight;
  std::int64_t padding_idx;

  ColumnEmbedding(Communicator& c, const nn::Embedding<B>& whole)
      : SplitLayer(c, whole.weight->extent(1), 1),
        weight(slice(whole.weight.value(), 1, part.first, part.end)),
        padding_idx(whole.padding_idx) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& indices) const {
    return detail::as_matrix(embedding(*weight, indices, padding_idx), [&](const Tensor<B>& y) {
      return call(GatherLast{workers, part}, y);
    });
  }
  void visit(auto&& p) { p("weight", weight); }
};

}  // namespace planck::dist
