// cuda:rows. A row is read once and written once where it is held on chip, which is up to 16 Ki
// (dense: 32 Ki) elements; longer rows are read again for each pass. cross_entropy streams dense
// rows (entropy_streamed.cuh), and so does its gradient (entropy_gradient.cuh).
#include "planck/loops/rows/functions.h"
#include "planck/ops/softmax/cuda/entropy_gradient.cuh"
#include "planck/ops/softmax/cuda/entropy_streamed.cuh"
#include "planck/ops/softmax/cuda/kernels.h"

namespace planck {

namespace row_device {
namespace {

// Wide rows keep 64 exponentials per thread: registers for five blocks of 128 threads.
inline constexpr std::int64_t kWidestKept = 8192;
template <class T, RowWay kWay, bool kLog>
inline constexpr int kForwardRegisters = kWay == RowWay::wide      ? 96
                                         : !kLog || sizeof(T) != 2 ? 64
                                         : kWay == RowWay::brief   ? 32
                                                                   : 48;
template <class T, RowWay kWay, bool kLog>
__global__ void __maxnreg__((kForwardRegisters<T, kWay, kLog>))
    softmax_forward(const SoftmaxArguments<T, kWay> a) {
  using R = RowOf<T, 1, kWay>;
  using C = typename R::C;
  __shared__ C sums[kMostWarps];
  __shared__ typename R::K keys[kMostWarps];
  R row(a.shape, a.in);
  bool near;
  const C largest = row.largest(keys, near);
  C kept[R::kRuns][R::kRun];
  const C sum = row.joined(exponentials(row, largest, near,
                                        [&](int k, int e, C v) {
                                          if constexpr (!kLog) kept[k][e] = v;
                                        }),
                           sums);
  if (sum != sum) {  // a NaN, or an infinite largest element: else no result is NaN
    row.map(a.out, [](const C(&)[1], std::int64_t, int, int) { return math::nan_of(C(0)); });
  } else if constexpr (kLog) {
    const C log_sum = math::log(sum);
    row.template map<false>(
        a.out, [&](const C(&x)[1], std::int64_t, int, int) { return (x[0] - largest) - log_sum; });
  } else {
    const C inverse = C(1) / sum;
    row.template map<false>(a.out, [&](const C(&x)[1], std::int64_t, int k, int e) {
      return (R::kHeld ? kept[k][e] : exp_below(x[0] - largest)) * inverse;
    });
  }
}

template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) softmax_backward(const SoftmaxArguments<T, kWay> a) {
  using R = RowOf<T, 2, kWay>;
  using C = typename R::C;
  __shared__ C shared[kMostWarps];
  R row(a.shape, a.in);
  const bool log = a.kind == SoftmaxKind::log_softmax_backward;
  const C sum = row.sum(
      shared, [&](const C(&in)[2], std::int64_t, int, int) { return log ? in[1] : in[1] * in[0]; });
  if (!log) {
    row.map(a.out, [&](const C(&in)[2], std::int64_t, int, int) { return (in[1] - sum) * in[0]; });
    return;
  }
  with_exp(row.all_near([](const C(&in)[2]) { return in[0]; }), [&](const auto& exp) {
    row.map(a.out,
            [&](const C(&in)[2], std::int64_t, int, int) { return in[1] - exp(in[0]) * sum; });
  });
}

// Rows without elements.
template <class T>
__global__ void empty_rows(const Losses<T> loss, Compute<T>* lse, std::int64_t lse_stride,
                           std::int64_t rows) {
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  loss.put(r, Compute<T>(0));
  lse[r * lse_stride] = -math::infinity_of(Compute<T>(0));
}

// One block: the number of targets is small against that of logits.
__global__ void __launch_bounds__(1024)
    count_bad(const Targets targets, std::int64_t rows, std::int64_t classes, std::int64_t* bad) {
  __shared__ int counts[32];
  int mine = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += 1024) {
    const std::int64_t t = targets.at(r);
    mine += t != targets.ignore && (t < 0 || t >= classes);
  }
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::int64_t all = 0;
  for (int c : counts) all += c;
  *bad = all;
}

// Whether rows may be wide.
template <class T>
using Wide = std::bool_constant<sizeof(T) == 2>;

template <class T>
Result<void> entropy(const Stream& stream, const SoftmaxProblem& p, const Operands& operands,
                     const RowView<const T>& x, const Targets& targets) {
  EntropyArguments<T, RowWay::held> a{};
  a.in[0] = x;
  a.targets = targets;
  a.shape = RowShape::make<T, 1>(p.rows(), p.length(), x.dense);
  a.loss = {operands[2].data, operands[2].strides[0], p.wide_loss};
  a.lse = static_cast<Compute<T>*>(operands[3].data);
  a.lse_stride = operands[3].strides[0];
  if (operands[4].present)
    if (auto ok = launch(stream, "cross_entropy targets", count_bad, 1, 1024, targets, p.rows(),
                         p.length(), static_cast<std::int64_t*>(operands[4].data));
        !ok)
      return ok;
  if (p.length() == 0)
    return launch(stream, "cross_entropy nothing", empty_rows<T>, ceil_div(p.rows(), 256), 256,
                  a.loss, a.lse, a.lse_stride, p.rows());
  if constexpr (sizeof(T) < 8) {
    if (x.dense && p.length() >= kStreamed) {
      cut_stream<T>(a);
      return launch(stream, "cross_entropy", entropy_streamed<T>, a.shape.blocks(),
                    a.shape.threads(), a.template as<RowWay::dense>());
    }
  }
  return visit_way(a.shape.way, [&](auto way) {
    return launch(stream, "cross_entropy", entropy_forward<T, way()>, a.shape.blocks(),
                  a.shape.threads(), a.template as<way()>());
  });
}

template <class T>
Result<void> run(const Stream& stream, const SoftmaxProblem& p, const Operands& operands) {
  const std::int64_t length = p.length();
  const unsigned along = 1u << p.axis;
  SoftmaxArguments<T, RowWay::held> a{};
  a.kind = p.kind;
  a.in[0] = RowView<const T>::make(operands[0], along, length);
  if (p.entropy()) {
    const View& t = operands[1];
    a.targets = {t.data, t.strides[0], p.ignore_index, t.dtype == Dtype::i64};
  }
  const auto launch_way = [&](const char* name, auto wide, const auto& kernel_of) {
    if (length == 0) return Result<void>{};
    return visit_way<wide()>(a.shape.way, [&](auto way) {
      return launch(stream, name, kernel_of(way), a.shape.blocks(), a.shape.threads(),
                    a.template as<way()>());
    });
  };
  switch (p.kind) {
    case SoftmaxKind::softmax:
    case SoftmaxKind::log_softmax:
      a.out = RowView<T>::make(operands[1], along, length);
      a.shape = RowShape::make<T, 1>(p.rows(), length, a.in[0].dense && a.out.dense, kWidestKept);
      return launch_way("softmax", Wide<T>{}, [&](auto way) {
        return p.kind == SoftmaxKind::softmax ? softmax_forward<T, way(), false>
                                              : softmax_forward<T, way(), true>;
      });
    case SoftmaxKind::softmax_backward:
    case SoftmaxKind::log_softmax_backward:
      a.in[1] = RowView<const T>::make(operands[1], along, length);
      a.out = RowView<T>::make(operands[2], along, length);
      a.shape =
          RowShape::make<T, 2>(p.rows(), length, a.in[0].dense && a.in[1].dense && a.out.dense);
      return launch_way("softmax backward", std::false_type{},
                        [](auto way) { return softmax_backward<T, way()>; });
    case SoftmaxKind::cross_entropy:
      return entropy(stream, p, operands, a.in[0], a.targets);
    case SoftmaxKind::cross_entropy_backward:
      a.lse = static_cast<Compute<T>*>(operands[2].data);
      a.lse_stride = operands[2].strides[0];
      a.dloss = {operands[3].data, operands[3].strides[0], p.wide_loss};
      a.out = RowView<T>::make(operands[4], along, length);
      a.shape = RowShape::make<T, 1>(p.rows(), length, a.in[0].dense && a.out.dense);
      if constexpr (sizeof(T) < 8)
        if (a.shape.way == RowWay::again && a.in[0].dense && a.out.dense && p.rows() <= INT32_MAX)
          return launch(stream, "cross_entropy backward", entropy_backward_streamed<T>, p.rows(),
                        kGradientThreads, a.template as<RowWay::dense>());
      return launch_way("cross_entropy backward", std::false_type{},
                        [](auto way) { return entropy_backward<T, way()>; });
  }
  return {};
}

}  // namespace
}  // namespace row_device

Result<void> softmax_cuda(const Stream& stream, Workspace, const SoftmaxProblem& p,
                          const Operands& operands) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_float(p.element_dtype, [&](auto type) {
    return row_device::run<typename decltype(type)::type>(stream, p, operands);
  });
}

}  // namespace planck
