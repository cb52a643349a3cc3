// Reference: a third backend, naive and in f64, as oracle and as the proof that the concept is
// enough. Every element of every kind is a double in a row-major vector; every op a plain loop. It
// shares the ops with the library, none of its kernels.
#pragma once

#include <memory>
#include <vector>

#include "planck/backend/quantized.h"
#include "planck/backend/tensor.h"
#include "planck/core/exception.h"
#include "tests/reference/evaluate.h"
#include "tests/reference/shape.h"

namespace planck {

template <class K>
struct ReferenceTensor {
  using Kind = K;
  std::shared_ptr<const ReferenceValues> values;
};

struct ReferenceDevice {
  friend bool operator==(const ReferenceDevice&, const ReferenceDevice&) = default;
};

class Reference {
 public:
  using Device = ReferenceDevice;
  using FloatElem = double;
  using IntElem = std::int64_t;
  using FloatTensor = ReferenceTensor<FloatKind>;
  using IntTensor = ReferenceTensor<IntKind>;
  using BoolTensor = ReferenceTensor<BoolKind>;
  using QuantizedTensor = Quantized<Reference>;

  template <class Op>
  static constexpr bool applies = ViewOp<Op> || AssemblyOp<Op> || ComputedOp<Op> ||
                                  requires(const Op& op, const ReferenceInputs& in) {
    evaluate(op, in);
  };

  static Device default_device() { return {}; }
  static std::size_t device_count() { return 1; }
  static std::string name(const Device&) { return "reference"; }
  static std::span<const Dtype> dtypes(const Device&) { return kAllDtypes; }
  static Rng& generator(const Device&) {
    thread_local Rng rng;
    return rng;
  }
  static void seed(const Device& device, std::uint64_t seed) { generator(device) = {.seed = seed}; }
  static void synchronize(const Device&) {}
  template <class K>
  static Shape shape(const ReferenceTensor<K>& t) {
    return t.values->shape;
  }
  template <class K>
  static Dtype dtype(const ReferenceTensor<K>& t) {
    return t.values->dtype;
  }
  template <class K>
  static Device device(const ReferenceTensor<K>&) {
    return {};
  }
  template <class K>
  static ReferenceTensor<K> from_host(const Device&, Dtype dtype, const Shape& shape,
                                      const void* data) {
    return wrap<K>(read_elements(dtype, shape, data));
  }
  template <class K>
  static void to_host(const ReferenceTensor<K>& t, void* data) {
    write_elements(*t.values, data);
  }

  template <class Op>
  static auto create(const Op& op, const Device&) {
    return give<FloatKind>(op, {});
  }
  template <class Op, class... K>
  static auto apply(const Op& op, const ReferenceTensor<K>&... in) {
    if constexpr (ComputedOp<Op>)
      return primitives_of(op.compute(Tensor<Reference, K>(in)...));
    else
      return give<std::tuple_element_t<0, std::tuple<K...>>>(op,
                                                             ReferenceInputs{in.values.get()...});
  }
  template <class Op, class K>
  static auto apply(const Op& op, const std::vector<ReferenceTensor<K>>& in) {
    ReferenceInputs inputs;
    for (const auto& t : in) inputs.push_back(t.values.get());
    return give<K>(op, inputs);
  }

 private:
  template <class K>
  static ReferenceTensor<K> wrap(ReferenceValues values) {
    return {std::make_shared<const ReferenceValues>(std::move(values))};
  }
  template <class First, class Op>
  static auto give(const Op& op, const ReferenceInputs& in) {
    using G = ResultKind<Op, First>;
    constexpr bool kNaive = requires { evaluate(op, in); };
    if constexpr (ViewOp<Op> && !kNaive)
      return wrap<First>(see(*in[0], [&](const View& v) { return op.view(v); }));
    else if constexpr (AssemblyOp<Op> && !kNaive)
      return wrap<First>(put_together(value_or_throw(op.assembly(specs_of(in))), in));
    else if constexpr (requires(G g) { []<class... K>(Kinds<K...>) {}(g); })
      return many(G{}, evaluate(op, in));
    else
      return wrap<G>(evaluate(op, in)[0]);
  }
  template <class... K>
  static std::tuple<ReferenceTensor<K>...> many(Kinds<K...>, std::vector<ReferenceValues> all) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<ReferenceTensor<K>...>{wrap<K>(std::move(all[I]))...};
    }
    (std::index_sequence_for<K...>{});
  }
};

static_assert(Backend<Reference>);

}  // namespace planck
