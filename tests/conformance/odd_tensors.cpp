#include "tests/conformance/odd_tensors.h"

#include "planck/planck.h"
#include "tests/reference/index.h"
#include "tests/reference/pool.h"
#include "tests/reference/reference.h"

namespace planck::conformance {

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr std::int64_t kMostElements = 1 << 20;

// ---- odd attributes ----

std::vector<QuantScheme> odd_schemes() {
  std::vector<QuantScheme> all;
  for (Granularity g : {Granularity::per_tensor, Granularity::per_channel, Granularity::per_token,
                        Granularity::per_group})
    for (Dtype t : {Dtype::s8, Dtype::s4, Dtype::f32})
      for (int axis : {-1, -9, 5, INT32_MIN})
        all.push_back({.granularity = g, .axis = axis, .group = axis == -1 ? 3 : axis, .dtype = t});
  all.push_back({.range = IntRange{5, 3}});
  all.push_back({.range = IntRange{INT32_MIN, INT32_MAX}});
  return all;
}

// Calls f(op) for the op as it is made, and with each of the attributes it has at odd values.
template <class Op, class F>
void for_each_variant(const F& f) {
  f(Op{});
  const auto with = [&](auto member, auto values) {
    for (const auto& v : values) {
      Op op{};
      member(op) = v;
      f(op);
    }
  };
  if constexpr (requires(Op op) { op.axis = int{}; })
    with(
        [](Op & op) -> auto& { return op.axis; },
        std::initializer_list<int>{-9, -2, -1, 1, 2, 8, INT32_MAX, INT32_MIN});
  if constexpr (requires(Op op) { op.axes = unsigned{}; })
    with(
        [](Op & op) -> auto& { return op.axes; },
        std::initializer_list<unsigned>{0, 1, 2, 3, 7, 0xff, 0x100, ~0u});
  if constexpr (requires(Op op) { op.axes = Extents{}; })
    with(
        [](Op & op) -> auto& { return op.axes; },
        std::initializer_list<Extents>{{0}, {0, 1}, {1, 0}, {-1, 0}, {0, 0}, {2, 0, 1}, {5, -7}});
  if constexpr (requires(Op op) { op.shape = Shape{}; })
    with(
        [](Op & op) -> auto& { return op.shape; },
        std::initializer_list<Shape>{
            {0}, {1}, {-1}, {12}, {3, -1}, {-1, -1}, {-5}, {2, 2, 6}, {kHuge, kHuge}, {0, -1}});
  if constexpr (requires(Op op) { op.dtype = Dtype{}; })
    with(
        [](Op & op) -> auto& { return op.dtype; }, kAllDtypes);
  if constexpr (requires(Op op) { op.scheme = QuantScheme{}; })
    with(
        [](Op & op) -> auto& { return op.scheme; }, odd_schemes());
  if constexpr (requires(Op op) {
                  op.step = std::int64_t{};
                  op.stop = std::int64_t{};
                }) {
    with(
        [](Op & op) -> auto& { return op.step; },
        std::initializer_list<std::int64_t>{0, 2, -1, -3, INT64_MAX, INT64_MIN});
    with(
        [](Op & op) -> auto& { return op.start; },
        std::initializer_list<std::int64_t>{1, -1, 5, 99, -99, INT64_MAX, INT64_MIN});
    with(
        [](Op & op) -> auto& { return op.stop; },
        std::initializer_list<std::int64_t>{0, 1, -1, 99, -99, INT64_MIN});
  }
  if constexpr (requires(Op op) {
                  op.before = Extents{};
                  op.after = Extents{};
                })
    for (const Extents& w : {Extents{}, Extents{1}, Extents{0, 2}, Extents{-1, 1}, Extents{-9, 0},
                             Extents{kHuge, kHuge}, Extents{INT64_MAX, INT64_MAX}}) {
      Op op{};
      op.before = op.after = w;
      f(op);
    }
}

// ---- tensors of a backend from host tensors, and back ----

template <class B, class K>
struct Made {
  static Tensor<B, K> from(const Tensors& in, std::size_t i) {
    using Held = std::conditional_t<std::same_as<K, CodeKind>, IntKind, K>;
    return Tensor<B, K>(B::template from_host<Held>(B::default_device(), in[i].dtype, in[i].shape,
                                                    in[i].bytes.data()));
  }
};
template <class B, class K>
struct Made<B, std::vector<K>> {
  static std::vector<Tensor<B, K>> from(const Tensors& in, std::size_t) {
    std::vector<Tensor<B, K>> all;
    for (std::size_t i = 0; i < in.size(); ++i) all.push_back(Made<B, K>::from(in, i));
    return all;
  }
};

template <class B, class K>
void read(const Tensor<B, K>& t, Tensors& out) {
  if (!check_shape(t.shape(), "") || t.numel() > kMostElements) {
    verify::HostTensor unread;
    unread.dtype = t.dtype();
    unread.shape = t.shape();
    return out.push_back(unread);
  }
  verify::HostTensor h(t.dtype(), t.shape());
  B::to_host(t.primitive(), h.bytes.data());
  out.push_back(std::move(h));
}
template <class... T>
void read(const std::tuple<T...>& all, Tensors& out) {
  std::apply([&](const auto&... t) { (read(t, out), ...); }, all);
}

template <class B, class Op, class... K>
Tensors run(const Tensors& in, std::size_t variant) {
  Tensors out;
  std::size_t k = 0;
  for_each_variant<Op>([&](const Op& op) {
    if (k++ != variant) return;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      read(call(op, Made<B, K>::from(in, I)...), out);
    }
    (std::index_sequence_for<K...>{});
  });
  return out;
}

// ---- the list ----

template <class K>
struct KindName {
  static constexpr std::string_view name = K::name;
};
template <class K>
struct KindName<std::vector<K>> : KindName<K> {};

template <class Op, class... K>
void add(std::vector<TensorOp>& to) {
  if constexpr (std::default_initializable<Op>) {
    TensorOp t;
    t.name = Op::name;
    t.kinds = {std::string(KindName<K>::name)...};
    t.any_number = (kIsVector<K> || ...);
    t.variants = 0;
    for_each_variant<Op>([&](const Op&) { ++t.variants; });
    t.cpu = run<Cpu, Op, K...>;
    if constexpr (Reference::applies<Op> && !(std::same_as<K, CodeKind> || ...))
      t.reference = run<Reference, Op, K...>;
    to.push_back(std::move(t));
  }
}

}  // namespace

const std::vector<TensorOp>& all_tensor_ops() {
  static const std::vector<TensorOp> all = [] {
    std::vector<TensorOp> ops;
#define PLANCK_OP(...) add<__VA_ARGS__>(ops)
#define PLANCK_CREATION(...)
#include "planck/ops/families.list.h"
#undef PLANCK_CREATION
#undef PLANCK_OP
    return ops;
  }();
  return all;
}

}  // namespace planck::conformance
