// conv2d_weight of tensor_core and exact: a product of dy and windows for each group, k over
// places of the output. tensor_core has one product for each chunk of places; their sums wait in
// f32 and are added from left to right. exact has no order, and no chunks.
#include <cmath>

#include "planck/loops/parallel.h"
#include "planck/ops/conv/cpu/exponents.h"
#include "planck/ops/conv/cpu/lines.h"
#include "planck/ops/conv/cpu/places.h"
#include "planck/ops/conv/cpu/window_products.h"
#include "planck/ops/conv/host/chunks.h"

namespace planck {

using namespace conv_detail;

namespace {

struct Layout {
  Chunks chunks;
  std::int64_t columns;  // of the product, in a group: (tap, channel)
  std::size_t total = 0, part = 0, x_magnitudes = 0, dy_magnitudes = 0, row_exponents = 0,
              column_exponents = 0, products, bytes;
  Layout(const ConvProblem& p, const Engine& engine)
      : chunks(engine.exact ? Chunks{1, p.batch() * p.extent(0) * p.extent(1)} : chunks_of(p)),
        columns(p.channels() * p.taps()) {
    Parts parts;
    const auto words = [&](std::int64_t n) { return parts.add(static_cast<std::size_t>(4 * n)); };
    if (engine.exact) {
      const std::int64_t images = std::max<std::int64_t>(p.batch(), 1);
      x_magnitudes = words(images * p.x[1]);
      dy_magnitudes = words(images * p.weight[0]);
      row_exponents = words(p.weight[0]);
      column_exponents = words(p.groups() * columns);
    } else {
      total = words(p.weight[0] * columns);
      part = chunks.count > 1 ? words(p.weight[0] * columns) : total;
    }
    const std::int64_t m = p.filters(), k = chunks.length;
    const std::size_t each = std::max(engine.bytes(m, columns, k), engine.bytes(columns, m, k));
    products = parts.add(bytes_for_groups(p.groups(), each));
    bytes = parts.end;
  }
};

class WeightSums {
 public:
  WeightSums(const Stream& stream, Workspace workspace, const ConvProblem& p,
             const Operands& operands, const Engine& engine)
      : stream_(stream),
        p_(p),
        engine_(engine),
        x_(operands[conv_operand::first]),
        dy_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        windows_(windows_of(p, 0)),
        slopes_{own_places(0), own_places(1), p.batch(), p.filters(), p.filters()},
        layout_(p, engine),
        workspace_(workspace) {}

  void run() {
    const std::int64_t places = windows_.places();
    if (engine_.exact) {
      find_exponents();
      multiply(0, places, nullptr);
      if (!finite_) replace_not_finite();
      return;
    }
    float* const total = words<float>(layout_.total);
    for (std::int64_t c = 0; c < layout_.chunks.count; ++c) {
      const std::int64_t begin = c * layout_.chunks.length;
      float* const sums = c == 0 ? total : words<float>(layout_.part);
      multiply(begin, std::min(layout_.chunks.length, places - begin), sums);
      if (c > 0)
        parallel_for(stream_, p_.weight[0], [&](std::int64_t f) {
          for (std::int64_t i = f * layout_.columns; i < (f + 1) * layout_.columns; ++i)
            total[i] += sums[i];
        });
    }
    parallel_for(stream_, p_.weight[0], [&](std::int64_t f) { store(f, total); });
  }

 private:
  template <class T>
  T* words(std::size_t at) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace_.data) + at);
  }
  // dy, seen as windows of one tap.
  WindowAxis own_places(int axis) const {
    const std::int64_t extent = p_.extent(axis);
    return {extent, 1, 0, 1, 0, 0, 1, 0, 1, extent};
  }

  // Sums of places [begin, begin + k) to `sums`, or to dweight where that is null.
  void multiply(std::int64_t begin, std::int64_t k, float* sums) const {
    const std::int64_t filters = p_.filters(), columns = layout_.columns;
    const bool turn = columns < engine_.panel() && filters > columns;
    const std::int64_t m = turn ? columns : filters, n = turn ? filters : columns;
    gemm::for_batches(
        stream_, {words<std::byte>(layout_.products), layout_.bytes - layout_.products}, m, n, k,
        p_.groups(), engine_.bytes(m, n, k),
        [&](const Stream& on, std::byte* bytes, std::int64_t group) {
          const WindowMatrix slopes(slopes_, {&dy_, group * filters, finite_});
          const WindowMatrix windows(windows_, {&x_, group * p_.channels(), finite_});
          WindowColumns a(slopes), b(windows);
          a.begin = b.begin = begin;
          const TapSink sink(out_, group * filters, !turn);
          gemm::Product product{filters,
                                columns,
                                k,
                                side_of(a),
                                side_of(b),
                                {sums, Dtype::f32, columns, 1},
                                group * filters * columns,
                                sums == nullptr ? &sink : nullptr};
          if (engine_.exact) {
            product.row_exponents = words<std::int32_t>(layout_.row_exponents) + group * filters;
            product.column_exponents =
                words<std::int32_t>(layout_.column_exponents) + group * columns;
          }
          engine_.multiply(on, p_.element_dtype, turn ? turned(product) : product, bytes);
        });
  }

  void store(std::int64_t f, const float* total) const {
    constexpr int kLine = 1024;
    const TapSink sink(out_, 0, true);
    for (std::int64_t c = 0; c < layout_.columns; c += kLine) {
      float line[kLine];
      const auto n = static_cast<int>(std::min<std::int64_t>(kLine, layout_.columns - c));
      for (int i = 0; i < n; ++i) line[i] = math::canonical(total[f * layout_.columns + c + i]);
      sink.store(f, c, n, line);
    }
  }

  // One exponent for each channel of x and each filter of dy, over all images.
  void find_exponents() {
    const auto over_images = [&](const View& v, std::size_t at) {
      auto* const all = words<Magnitude>(at);
      find_magnitudes(stream_, v, all);
      for (std::int64_t c = 0; c < v.shape[1]; ++c) {
        Magnitude most;
        for (std::int64_t n = 0; n < v.shape[0]; ++n) most.join(all[n * v.shape[1] + c]);
        all[c] = most;
        finite_ = finite_ && most.finite();
      }
      return all;
    };
    const Magnitude* const x = over_images(x_, layout_.x_magnitudes);
    const Magnitude* const dy = over_images(dy_, layout_.dy_magnitudes);
    auto* const rows = words<std::int32_t>(layout_.row_exponents);
    auto* const columns = words<std::int32_t>(layout_.column_exponents);
    for (std::int64_t f = 0; f < p_.weight[0]; ++f) rows[f] = dy[f].exponent();
    for (std::int64_t at = 0; at < p_.groups() * layout_.columns; ++at)
      columns[at] = x[at / layout_.columns * p_.channels() + at % p_.channels()].exponent();
  }

  // Sums that meet NaN or infinities, which were multiplied as zeros.
  void replace_not_finite() const {
    const auto* const x = words<Magnitude>(layout_.x_magnitudes);
    const auto* const dy = words<Magnitude>(layout_.dy_magnitudes);
    parallel_for(stream_, p_.weight[0], [&](std::int64_t f) {
      const TapSink sink(out_, 0, true);
      const std::int64_t group = f / p_.filters();
      for (std::int64_t column = 0; column < layout_.columns; ++column) {
        const std::int64_t channel = group * p_.channels() + column % p_.channels();
        if (dy[f].finite() && x[channel].finite()) continue;
        const NotFiniteSum sum = meets(f, column / p_.channels(), channel);
        if (sum.any()) static_cast<float*>(out_.data)[sink.offset(f, column)] = sum.value();
      }
    });
  }
  NotFiniteSum meets(std::int64_t f, std::int64_t tap, std::int64_t channel) const {
    const Windows& w = windows_;
    const Strides &s = x_.strides, &d = dy_.strides;
    NotFiniteSum sum;
    for (std::int64_t n = 0; n < w.batch; ++n)
      for (std::int64_t i = 0; i < w.down.places; ++i)
        for (std::int64_t j = 0; j < w.across.places; ++j) {
          const std::int64_t h = w.down.read(i, tap / w.across.taps);
          const std::int64_t at = w.across.read(j, tap % w.across.taps);
          const bool inside = h >= 0 && h < w.down.extent && at >= 0 && at < w.across.extent;
          sum.add(static_cast<const float*>(dy_.data)[n * d[0] + f * d[1] + i * d[2] + j * d[3]],
                  inside ? static_cast<const float*>(
                               x_.data)[n * s[0] + channel * s[1] + h * s[2] + at * s[3]]
                         : 0.0f);
        }
    return sum;
  }

  const Stream& stream_;
  const ConvProblem& p_;
  Engine engine_;
  const View &x_, &dy_, &out_;
  Windows windows_, slopes_;
  Layout layout_;
  Workspace workspace_;
  bool finite_ = true;
};

}  // namespace

std::size_t conv_detail::weight_sums_workspace(const ConvProblem& p, const Engine& engine) {
  return numel(p.weight) == 0 ? 0 : Layout(p, engine).bytes;
}

Result<void> conv_detail::weight_sums(const Stream& stream, Workspace workspace,
                                      const ConvProblem& p, const Operands& operands,
                                      const Engine& engine) {
  if (numel(p.weight) > 0) WeightSums(stream, workspace, p, operands, engine).run();
  return {};
}

}  // namespace planck
