#include "tests/conformance/odd_tensors.h"

#include "tests/conformance/odd_variants.h"
#include "tests/reference/index.h"
#include "tests/reference/pool.h"
#include "tests/reference/reference.h"

namespace planck::conformance {

namespace {

constexpr std::int64_t kMostElements = 1 << 20;

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
Tensors run(const Attributes& attributes, const Tensors& in, std::size_t variant) {
  Tensors out;
  std::size_t k = 0;
  for_each_variant<Op>(attributes, [&](const Op& op) {
    if (k++ != variant) return;
    if constexpr (sizeof...(K) == 0)
      read(create<B>(op, B::default_device()), out);
    else
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
  static_assert(
      requires { Plain<Op>::made(); }, "odd_variants.h says how this op is made");
  TensorOp t;
  t.name = Op::name;
  t.kinds = {std::string(KindName<K>::name)...};
  t.any_number = (kIsVector<K> || ...);
  t.variants = 0;
  for_each_variant<Op>({}, [&](const Op&) { ++t.variants; });
  t.cpu = run<Cpu, Op, K...>;
  PLANCK_IF_CUDA(t.cuda = run<Cuda, Op, K...>;)
  if constexpr (Reference::applies<Op> && !(std::same_as<K, CodeKind> || ...))
    t.reference = run<Reference, Op, K...>;
  to.push_back(std::move(t));
}

}  // namespace

const std::vector<TensorOp>& all_tensor_ops() {
  static const std::vector<TensorOp> all = [] {
    std::vector<TensorOp> ops;
#define PLANCK_OP(...) add<__VA_ARGS__>(ops)
#define PLANCK_CREATION(...) add<__VA_ARGS__>(ops)
#include "planck/ops/families.list.h"
#undef PLANCK_CREATION
#undef PLANCK_OP
    return ops;
  }();
  return all;
}

}  // namespace planck::conformance
