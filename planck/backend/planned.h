// Ops on the primitives of Cpu and Cuda, one function for both: work goes where the inputs are.
//
// How an op is done is in plan/value_op.h: a view shares the input's storage; a plan is selected
// once for each problem and remembered, its outputs come from the caching allocator, or are an
// input's own buffer where nobody else holds that and the op works in place. Outputs are row-major,
// or lie as the input that a problem's lies_as(operand) names: what was permuted stays so, and
// where such inputs are neighbours in one block, so are the outputs.
#pragma once

#include <array>
#include <tuple>

#include "planck/backend/backend.h"
#include "planck/backend/observe.h"
#include "planck/backend/plan_cache.h"
#include "planck/backend/primitive.h"
#include "planck/backend/side_by_side.h"

namespace planck {

namespace backend_detail {

[[noreturn]] void refuse_other_place(std::string_view op, const Stream& first, const Stream& other);
std::uint64_t hash(std::span<const InputSpec> specs);
// Puts an Assembly together on `out`.
void assemble(std::string_view op, const Assembly& assembly, std::span<const View> inputs,
              const View& out, const Stream& stream);
// Elements of `from` over those of `to`, which has the same shape and dtype.
void copy(const View& from, const View& to, const Stream& stream);
// `t` as it is where its elements lie row-major, else a copy that does.
StoredView contiguous(const StoredView& t);
// Row-major elements from and to the host; to_host returns when they are there.
StoredView from_host(const Stream& stream, Dtype dtype, const Shape& shape, const void* data);
void to_host(const StoredView& t, void* data);
// Memory of someone else, which `owner` keeps alive.
StoredView borrow(const Stream& stream, const View& view, std::shared_ptr<const void> owner);

std::vector<View> views_of(std::span<StoredView* const> tensors);
// Dense strides whose axes lie in memory in the order of those of `like`, a tensor of as many axes;
// row-major where that is.
Strides dense_in_order_of(const Shape& shape, const Strides& like);
// The slices of one dense block along an axis, as split() gives them of a projection: all of it, in
// any order. Elements of the block, and where it begins; none where views are not that.
struct Neighbours {
  std::int64_t elements = 0;
  const std::byte* first = nullptr;
};
Neighbours neighbours(std::span<const View> views);
// A tensor whose pieces, in this order, the inputs are where they lie; cat() need not copy them.
std::optional<StoredView> seen_together(const Assembly& assembly,
                                        std::span<const StoredView* const> inputs);

// The operands of one run: inputs where they are, outputs in memory of their own, or in that of a
// spare input, which goes back to it unless keep() is called.
class OperandMemory {
 public:
  // lies_as: the operand in whose order each output lies, or -1.
  OperandMemory(const OpInfo& info, std::span<const OperandSpec> specs,
                std::span<const int> lies_as, bool in_place, const Stream& stream,
                std::span<const View> inputs, std::span<StoredView* const> spares,
                std::span<StoredView* const> outputs, unsigned skipped);
  OperandMemory(const OperandMemory&) = delete;
  void keep();  // what was taken: it is written to

  Operands operands;

 private:
  struct Taken {  // an input's buffer, which goes back to it where the op cannot be run
    StoredView *from = nullptr, *to = nullptr;
    ~Taken();
  };
  std::array<Taken, kMaxOperands> taken_;
};

// Runs a plan; inputs and outputs in the order of the op's operands, those the problem does not use
// left out. `spares` are inputs whose buffers an output may take, null between them.
template <class Problem>
void run_plan(const Problem& problem, KernelName kernel, const Stream& stream,
              std::span<const InputSpec> specs, std::span<const View> inputs,
              std::span<StoredView* const> spares, std::span<StoredView* const> outputs,
              unsigned skipped) {
  const auto& plan = PlanCache<Problem>::get(stream, problem, kernel, hash(specs));
  const OpInfo& info = problem.info();
  Workspace workspace;  // first: where there is no memory for it, no input has lost its buffer
  Shared<Storage> room;
  if (plan.workspace_size() > 0) {
    room = Storage::allocate(stream, plan.workspace_size());
    workspace = {room->data(), room->bytes()};
  }
  Recording* const beside = side_by_side(stream);
  std::array<int, kMaxOperands> lies_as;
  lies_as.fill(-1);
  if constexpr (requires { problem.lies_as(0); })
    for (std::size_t i = 0; i < info.operands.size(); ++i)
      if (info.operands[i].role != Role::input) lies_as[i] = problem.lies_as(i);
  OperandMemory memory(info, plan.specs(), lies_as,
                       info.in_place && beside == nullptr && !Observer::inputs_are_kept(), stream,
                       inputs, spares, outputs, skipped);
  const auto run = [&] {
    value_or_throw(plan.run(stream, workspace, memory.operands));
    memory.keep();
  };
  if (beside != nullptr)
    run_beside(*beside, inputs, outputs, room, run);
  else if (!Observer::any())
    run();
  else
    observed(info.name, stream, inputs, views_of(outputs), run);
}

}  // namespace backend_detail

// Cpu's and Cuda's tensors.
struct Primitives {
  using FloatTensor = Primitive<FloatKind>;
  using IntTensor = Primitive<IntKind>;
  using BoolTensor = Primitive<BoolKind>;
};

// One op on tensors of these kinds. The library has it compiled for its own ops
// (autodiff/compiled.h).
template <class Op, class... K>
struct Planned {
  using First = std::tuple_element_t<0, std::tuple<K..., FloatKind>>;
  using Gives = ResultKind<Op, First>;
  using Out = TensorOf<Primitives, Gives>;

  static Out apply(const Op& op, unsigned handed, const TensorOf<Primitives, K>&... in);
};
// An op without inputs.
template <class Op>
struct Planned<Op> {
  using Out = TensorOf<Primitives, ResultKind<Op, FloatKind>>;
  static Out create(const Op& op, const Stream& stream);
};

namespace backend_detail {

// Work on both is ordered. CPU streams differ in threads only.
inline void check_place(std::string_view op, const Stream& first, const Stream& other) {
  if (!(first.device() == other.device() && first.native() == other.native()))
    refuse_other_place(op, first, other);
}

template <class Op>
inline StoredView see(const Op& op, const StoredView& x) {
  auto view = op.view(x.view);
  if (view) return {x.storage, *view};
  if (view.error().code != ErrorCode::misaligned_operand)  // only a copy can be seen so
    throw Exception(std::move(view.error()));
  const StoredView dense = contiguous(x);
  return {dense.storage, value_or_throw(op.view(dense.view))};
}

template <class Op>
inline StoredView put_together(const Op& op, const Stream& stream, std::span<const InputSpec> specs,
                               std::span<const View> views) {
  const Assembly assembly = value_or_throw(op.assembly(specs));
  value_or_throw(check_shape(assembly.shape, Op::name));
  auto out = StoredView::empty(stream, assembly.dtype, assembly.shape);
  assemble(Op::name, assembly, views, out.view, stream);
  return out;
}
template <class Op, class K>
StoredView put_together(const Op& op, const std::vector<Primitive<K>>& inputs) {
  if (inputs.empty())
    raise(ErrorCode::invalid_problem, std::string(Op::name) + ": takes at least one tensor");
  std::vector<InputSpec> specs;
  std::vector<View> views;
  std::vector<const StoredView*> tensors;
  for (const auto& t : inputs) {
    check_place(Op::name, inputs[0].stream(), t.stream());
    specs.push_back({t.dtype(), t.shape()});
    views.push_back(t.view);
    tensors.push_back(&t);
  }
  const Assembly assembly = value_or_throw(op.assembly(specs));
  value_or_throw(check_shape(assembly.shape, Op::name));
  if (auto seen = seen_together(assembly, tensors)) return *std::move(seen);
  auto out = StoredView::empty(inputs[0].stream(), assembly.dtype, assembly.shape);
  assemble(Op::name, assembly, views, out.view, inputs[0].stream());
  return out;
}

template <class Op>
inline void run_op(const Op& op, const Stream& stream, std::span<const InputSpec> specs,
                   std::span<const View> views, std::span<StoredView* const> spares,
                   std::span<StoredView* const> outputs) {
  KernelName kernel;
  if constexpr (requires { op.kernel; }) kernel = op.kernel;
  unsigned skipped = 0;
  if constexpr (requires { Op::skipped_outputs; }) skipped = Op::skipped_outputs;
  Op asked = op;
  if constexpr (requires { asked.math; })
    if (!asked.math && !specs.empty()) asked.math = stream.product_math(specs[0].dtype);
  run_plan(value_op_detail::known(asked.problem(specs)), kernel, stream, specs, views, spares,
           outputs, skipped);
}
template <class K>
inline std::array<StoredView*, 1> parts(Primitive<K>& out) {
  return {&out};
}
template <class... K>
std::array<StoredView*, sizeof...(K)> parts(std::tuple<Primitive<K>...>& out) {
  return std::apply([](auto&... t) { return std::array<StoredView*, sizeof...(K)>{&t...}; }, out);
}

// A tensor that was handed over and holds its buffer alone.
inline StoredView* spare(const StoredView& t, bool handed) {
  return handed && t.storage->writable() ? const_cast<StoredView*>(&t) : nullptr;
}

}  // namespace backend_detail

template <class Op, class... K>
auto Planned<Op, K...>::apply(const Op& op, unsigned handed, const TensorOf<Primitives, K>&... in)
    -> Out {
  const auto& first = std::get<0>(std::tie(in...));
  if constexpr (ViewOp<Op>) {
    return {backend_detail::see(op, first)};
  } else if constexpr (kIsVector<First>) {
    return {backend_detail::put_together(op, first)};
  } else {
    static_assert(AssemblyOp<Op> || PlanOp<Op>, "this op says no way to do it");
    const Stream& stream = first.stream();  // lives as long as the buffer, whoever takes that
    (backend_detail::check_place(Op::name, stream, in.stream()), ...);
    const std::array<InputSpec, sizeof...(K)> specs{InputSpec{in.dtype(), in.shape()}...};
    const std::array<View, sizeof...(K)> views{in.view...};
    if constexpr (AssemblyOp<Op>) {
      return {backend_detail::put_together(op, stream, specs, views)};
    } else {
      unsigned bit = 1;
      const std::array<StoredView*, sizeof...(K)> spares{
          backend_detail::spare(in, (handed & std::exchange(bit, bit << 1)) != 0)...};
      Out out;
      const auto outputs = backend_detail::parts(out);
      const auto run = [&] { backend_detail::run_op(op, stream, specs, views, spares, outputs); };
      const std::array<const StoredView*, sizeof...(K)> all{&in...};
      if (Recording* recording = backend_detail::knows_all(stream, all))
        backend_detail::run_once(*recording, outputs, run);
      else
        run();
      return out;
    }
  }
}

template <class Op>
auto Planned<Op>::create(const Op& op, const Stream& stream) -> Out {
  Out out;
  const auto outputs = backend_detail::parts(out);
  const auto run = [&] { backend_detail::run_op(op, stream, {}, {}, {}, outputs); };
  if constexpr (requires { op.seed; })  // drawn anew in every run
    run();
  else
    backend_detail::make_once(stream, op.problem({}), *outputs[0], run);
  return out;
}

}  // namespace planck
