// Cpu and Cuda: one backend over the plans.
//
// apply() finds out how an op is done (plan/value_op.h): a view shares the input's storage; a plan
// is selected once for each problem and remembered, its outputs come from the caching allocator, or
// are an input's own buffer where nobody else holds that and the op works in place. Work goes to
// the stream of the first input; inputs on different devices are an error.
#pragma once

#include <array>
#include <tuple>

#include "planck/backend/plan_cache.h"
#include "planck/backend/primitive.h"
#include "planck/backend/tensor.h"
#include "planck/ops/quantize/quantize.ops.h"

namespace planck {

namespace backend_detail {

// At most this many tensors go into a plan; assemblies take any number.
inline constexpr std::size_t kMaxInputs = kMaxOperands;

// The stream that tensors of a device use unless told otherwise.
Stream shared_stream(Device device);
[[noreturn]] void refuse_other_place(std::string_view op, const Stream& first, const Stream& other);
std::uint64_t hash(std::span<const InputSpec> specs);
// Puts an Assembly together on `out`.
void assemble(const Assembly& assembly, std::span<const View> inputs, const View& out,
              const Stream& stream);
// Elements of `from` over those of `to`, which has the same shape and dtype.
void copy(const View& from, const View& to, const Stream& stream);
void upload(const void* host, std::size_t bytes, void* device, const Stream& stream);
void download(const void* device, std::size_t bytes, void* host, const Stream& stream);

// An input's buffer that an output may take: it was handed over and nobody else holds it.
struct Spare {
  Shared<Storage>* storage = nullptr;
  const View* view = nullptr;
};

// Runs a plan; inputs and outputs in the order of the op's operands, those the problem does not use
// left out.
template <class Problem>
void run_plan(const Problem& problem, KernelName kernel, const Stream& stream,
              std::span<const InputSpec> specs, std::span<const View> inputs,
              std::span<const Spare> spares, std::span<std::pair<Shared<Storage>*, View*>> outputs,
              unsigned skipped) {
  const auto& plan = PlanCache<Problem>::get(stream, problem, kernel, hash(specs));
  const OpInfo& info = problem.info();
  Operands operands;
  std::size_t next_input = 0, next_output = 0;
  for (std::size_t i = 0; i < info.operands.size(); ++i) {
    const OperandSpec& spec = plan.specs()[i];
    if (!spec.used) continue;
    if (info.operands[i].role == Role::input) {
      if (next_input < inputs.size()) operands[i] = inputs[next_input++];
      continue;
    }
    if (skipped > 0) {  // outputs the op does not want, from the front
      --skipped;
      continue;
    }
    if (next_output == outputs.size()) continue;
    auto [storage, view] = outputs[next_output++];
    *view = View{nullptr, spec.dtype, spec.shape, row_major(spec.shape), true};
    if (info.in_place && !spec.count_only && bits(spec.dtype) >= 8)
      for (const Spare& spare : spares)
        if (spare.storage != nullptr && *spare.storage && spare.view->dtype == spec.dtype &&
            spare.view->shape == spec.shape && spare.view->strides == view->strides) {
          *storage = std::move(*spare.storage);
          view->data = spare.view->data;
          break;
        }
    if (!*storage) {
      *storage = Storage::allocate(stream, bytes_for(spec.dtype, numel(spec.shape)));
      view->data = (*storage)->data();
    }
    operands[i] = *view;
  }
  Workspace workspace;
  Shared<Storage> scratch;
  if (plan.workspace_size() > 0) {
    scratch = Storage::allocate(stream, plan.workspace_size());
    workspace = {scratch->data(), scratch->bytes()};
  }
  value_or_throw(plan.run(stream, workspace, operands));
}

}  // namespace backend_detail

// Integers with their scale, zero point and scheme.
struct QuantizedPrimitive {
  Primitive<IntKind> values;
  Primitive<FloatKind> scale;
  Primitive<IntKind> zero_point;
  QuantScheme scheme;
};

template <DeviceKind D>
class DeviceBackend {
 public:
  using Device = Stream;  // a place to run
  using FloatElem = float;
  using IntElem = std::int64_t;
  using FloatTensor = Primitive<FloatKind>;
  using IntTensor = Primitive<IntKind>;
  using BoolTensor = Primitive<BoolKind>;
  using QuantizedTensor = QuantizedPrimitive;

  template <class Op>
  static constexpr bool applies = ViewOp<Op> || AssemblyOp<Op> || PlanOp<Op> || ComputedOp<Op>;

  static Stream default_device() {
    static const Stream stream = backend_detail::shared_stream({D, 0});
    return stream;
  }

  template <class K>
  static const Stream& device(const Primitive<K>& t) {
    return t.stream();
  }
  template <class K>
  static Dtype dtype(const Primitive<K>& t) {
    return t.dtype();
  }
  template <class K>
  static const Shape& shape(const Primitive<K>& t) {
    return t.shape();
  }

  // Row-major elements from and to the host; to_host returns when they are there.
  template <class K>
  static Primitive<K> from_host(const Stream& stream, Dtype dtype, const Shape& shape,
                                const void* data) {
    value_or_throw(check_shape(shape, "from_host"));
    auto t = Primitive<K>::empty(stream, dtype, shape);
    backend_detail::upload(data, bytes_for(dtype, numel(shape)), t.view.data, stream);
    return t;
  }
  template <class K>
  static void to_host(const Primitive<K>& t, void* data) {
    const Primitive<K> dense = contiguous(t);
    backend_detail::download(dense.view.data, bytes_for(t.dtype(), numel(t.shape())), data,
                             t.stream());
  }
  template <class K>
  static Primitive<K> contiguous(const Primitive<K>& t) {
    if (is_contiguous(t.shape(), t.view.strides)) return t;
    auto dense = Primitive<K>::empty(t.stream(), t.dtype(), t.shape());
    backend_detail::copy(t.view, dense.view, t.stream());
    return dense;
  }

  // An op without inputs.
  template <class Op>
  static auto create(const Op& op, const Stream& stream) {
    return run(op, stream, {}, {}, {});
  }

  template <class Op, class First, class... Rest>
  static auto apply(const Op& op, First&& first, Rest&&... rest) {
    using F = std::remove_cvref_t<First>;
    if constexpr (kIsVector<F>) {
      return apply_many(op, first);
    } else if constexpr (ViewOp<Op>) {
      return see(op, first);
    } else if constexpr (ComputedOp<Op>) {
      return op
          .compute(Tensor<DeviceBackend, typename F::Kind>(std::forward<First>(first)),
                   Tensor<DeviceBackend, typename std::remove_cvref_t<Rest>::Kind>(
                       std::forward<Rest>(rest))...)
          .primitive();
    } else {
      static_assert(AssemblyOp<Op> || PlanOp<Op>, "this op says no way to do it");
      const Stream stream = first.stream();
      const auto check = [&](const auto& t) {
        if (!same_place(stream, t.stream()))
          backend_detail::refuse_other_place(Op::name, stream, t.stream());
      };
      (check(rest), ...);
      constexpr std::size_t kCount = 1 + sizeof...(Rest);
      const std::array<InputSpec, kCount> specs{InputSpec{first.dtype(), first.shape()},
                                                InputSpec{rest.dtype(), rest.shape()}...};
      const std::array<View, kCount> views{first.view, rest.view...};
      if constexpr (AssemblyOp<Op>) {
        return put_together<typename F::Kind>(op, stream, specs, views);
      } else {
        const std::array<backend_detail::Spare, kCount> spares{spare<First>(first),
                                                               spare<Rest>(rest)...};
        return run<Op, typename F::Kind>(op, stream, specs, views, spares);
      }
    }
  }

 private:
  // Work on both is ordered. CPU streams differ in threads only.
  static bool same_place(const Stream& a, const Stream& b) {
    return a.device() == b.device() && a.native() == b.native();
  }

  // A tensor handed over as an rvalue that holds its storage alone.
  template <class T>
  static backend_detail::Spare spare(std::remove_reference_t<T>& t) {
    if constexpr (!std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>) {
      if (t.storage->unique()) return {&t.storage, &t.view};
    }
    return {};
  }

  template <class Op, class K>
  static Primitive<K> see(const Op& op, const Primitive<K>& x) {
    auto view = op.view(x.view);
    if (view) return x.viewed(*view);
    if (view.error().code != ErrorCode::misaligned_operand)  // only a copy can be seen so
      throw Exception(std::move(view.error()));
    const Primitive<K> dense = contiguous(x);
    return dense.viewed(value_or_throw(op.view(dense.view)));
  }

  template <class Op, class K>
  static auto apply_many(const Op& op, const std::vector<Primitive<K>>& inputs) {
    if (inputs.empty())
      raise(ErrorCode::invalid_problem, std::string(Op::name) + ": takes at least one tensor");
    std::vector<InputSpec> specs;
    std::vector<View> views;
    for (const auto& t : inputs) {
      if (!same_place(inputs[0].stream(), t.stream()))
        backend_detail::refuse_other_place(Op::name, inputs[0].stream(), t.stream());
      specs.push_back({t.dtype(), t.shape()});
      views.push_back(t.view);
    }
    return put_together<K>(op, inputs[0].stream(), specs, views);
  }

  template <class K, class Op>
  static Primitive<K> put_together(const Op& op, const Stream& stream,
                                   std::span<const InputSpec> specs, std::span<const View> views) {
    const Assembly assembly = value_or_throw(op.assembly(specs));
    value_or_throw(check_shape(assembly.shape, Op::name));
    auto out = Primitive<K>::empty(stream, assembly.dtype, assembly.shape);
    backend_detail::assemble(assembly, views, out.view, stream);
    return out;
  }

  template <class Op, class First = FloatKind>
  static auto run(const Op& op, const Stream& stream, std::span<const InputSpec> specs,
                  std::span<const View> views, std::span<const backend_detail::Spare> spares) {
    const auto problem = value_or_throw(op.problem(specs));
    KernelName kernel;
    if constexpr (requires { op.kernel; }) kernel = op.kernel;
    unsigned skipped = 0;
    if constexpr (requires { Op::skipped_outputs; }) skipped = Op::skipped_outputs;
    const auto with = [&]<class... K>(Kinds<K...>) {
      std::tuple<Primitive<K>...> out;
      std::apply(
          [&](auto&... t) {
            std::array<std::pair<Shared<Storage>*, View*>, sizeof...(K)> outputs{
                std::pair{&t.storage, &t.view}...};
            backend_detail::run_plan(problem, kernel, stream, specs, views, spares, outputs,
                                     skipped);
          },
          out);
      return out;
    };
    using G = ResultKind<Op, First>;
    if constexpr (requires(G g) { []<class... K>(Kinds<K...>) {}(g); })
      return with(G{});
    else
      return std::get<0>(with(Kinds<G>{}));
  }
};

using Cpu = DeviceBackend<DeviceKind::cpu>;
using Cuda = DeviceBackend<DeviceKind::cuda>;

// Calls f(std::type_identity<B>{}) for every backend that has a device on this machine.
template <class F>
void for_each_backend(F&& f) {
  f(std::type_identity<Cpu>{});
  if (Stream::on({DeviceKind::cuda, 0})) f(std::type_identity<Cuda>{});
}

}  // namespace planck
