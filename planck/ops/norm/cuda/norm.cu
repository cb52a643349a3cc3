// cuda:rows. A row is held on chip where it has up to 16 Ki elements (dense: 32 Ki): read once,
// written once. The gradients of weight and bias come with dx in one pass (fused_backward.cuh) or
// in one of their own (column_sums.cuh).
#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/rows/cuda/held_rows.cuh"
#include "planck/loops/rows/functions.h"
#include "planck/ops/norm/cuda/column_sums.cuh"
#include "planck/ops/norm/cuda/fused_backward.cuh"
#include "planck/ops/norm/cuda/kernels.h"

namespace planck {

namespace row_device {
namespace {

namespace m = row_math;
namespace o = norm_operand;

template <class T, RowWay kWay = RowWay::held>
struct NormArguments {
  RowShape shape;
  OperandOf<const T, kWay> in[2];  // x; dy
  OperandOf<const T, kWay> weight, bias;
  OperandOf<T, kWay> out;
  bool weighted, biased, centered;
  Compute<T> eps, count;
  Compute<T>* mean;
  Compute<T>* rstd;
  RowMapOf<kWay> mean_map, rstd_map;

  template <RowWay kTo>
  NormArguments<T, kTo> as() const {
    return {shape, {in[0], in[1]}, weight, bias, out,      weighted, biased, centered,
            eps,   count,          mean,   rstd, mean_map, rstd_map};
  }
};

// 48 registers leave room for five blocks of 256 threads.
template <class T, RowWay kWay>
__global__ void __maxnreg__(kWay == RowWay::dense && sizeof(T) == 2 ? 48 : 64)
    norm_forward(const NormArguments<T, kWay> a) {
  using R = RowOf<T, 1, kWay>;
  using C = typename R::C;
  __shared__ C sums[kMostWarps], squares[kMostWarps];
  R row(a.shape, a.in);
  m::Shared<C> s;
  if (a.centered)
    s.a = row.sum(sums, [](const C(&x)[1], std::int64_t, int, int) { return x[0]; }) / a.count;
  const C variance = row.sum(squares, [&](const C(&x)[1], std::int64_t, int, int) {
    return rm::square(x[0], s.a);
  }) / a.count;
  s.b = C(1) / math::sqrt_of(variance + a.eps);
  if (row.leads()) {
    if (a.centered) a.mean[a.mean_map.offset(row.row)] = canonical_nan(s.a);
    a.rstd[a.rstd_map.offset(row.row)] = canonical_nan(s.b);
  }
  SharedRun<T> weight{}, bias{};
  row.map(
      a.out,
      [&](const C(&x)[1], std::int64_t, int, int e) {
        return m::Normalized::of(x[0], bias.value[e], weight.value[e], s);
      },
      [&](std::int64_t run) {
        weight.load(a.weight, a.weighted, run, a.shape.length, C(1));
        bias.load(a.bias, a.biased, run, a.shape.length, C(-0.0));
      });
}

template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) norm_backward(const NormArguments<T, kWay> a) {
  using R = RowOf<T, 2, kWay>;
  using C = typename R::C;
  __shared__ C sums[kMostWarps], products[kMostWarps];
  follow();
  R row(a.shape, a.in);
  m::Shared<C> s;
  if (row.inside) {
    if (a.centered) s.a = a.mean[a.mean_map.offset(row.row)];
    s.b = a.rstd[a.rstd_map.offset(row.row)];
  }
  SharedRun<T> weight{};
  const auto load = [&](std::int64_t run) {
    weight.load(a.weight, a.weighted, run, a.shape.length, C(1));
  };
  if (a.centered)
    s.c =
        row.sum(
            sums, [&](const C(&v)[2], std::int64_t, int, int e) { return v[1] * weight.value[e]; },
            load) /
        a.count;
  s.d = row.sum(
            products,
            [&](const C(&v)[2], std::int64_t, int, int e) {
              return m::WeightedHat::of(v[0], v[1], weight.value[e], s);
            },
            load) /
        a.count;
  row.map(
      a.out,
      [&](const C(&v)[2], std::int64_t, int, int e) {
        return m::NormBackward::of(v[0], v[1], weight.value[e], s);
      },
      load);
}

template <class T>
Result<void> totals(const Stream& stream, const GradientArguments<T>& a) {
  return launch_next(stream, "norm gradients", gradient_totals<T>, ceil_div(a.length, 32),
                     32 * kTotalSlots, a);
}

template <class T>
GradientArguments<T> make_gradients(Workspace workspace, const NormProblem& p,
                                    const NormArguments<T>& n, const Operands& operands) {
  GradientArguments<T> a{};
  a.x = n.in[0];
  a.dy = n.in[1];
  a.mean = n.centered ? n.mean : nullptr;
  a.rstd = n.rstd;
  a.mean_map = n.mean_map;
  a.rstd_map = n.rstd_map;
  a.rows = p.rows();
  a.length = p.length();
  a.chunks = norm_chunks(p);
  a.tiles = ceil_div(a.length, 32);
  a.partials = static_cast<TwoSums<Compute<T>>*>(workspace.data);
  if (p.weighted) a.dweight = static_cast<T*>(operands[o::dweight].data);
  if (p.biased) a.dbias = static_cast<T*>(operands[o::dbias].data);
  if (p.weighted) a.dweight_map = AxisMap::of(axes_walk(operands[o::dweight], ~0u));
  if (p.biased) a.dbias_map = AxisMap::of(axes_walk(operands[o::dbias], ~0u));
  return a;
}

template <class T>
Result<void> gradients(const Stream& stream, const GradientArguments<T>& a) {
  if (a.rows == 0)
    return launch(stream, "norm gradients", no_gradients<T>, ceil_div(a.length, 128), 128, a);
  const bool lines = a.x.rows.rank == 1 && a.dy.rows.rank == 1 && a.rstd_map.rank == 1 &&
                     (a.mean == nullptr || a.mean_map.rank == 1);
  const auto kernel = lines ? gradient_chunks<T, true> : gradient_chunks<T, false>;
  if (auto ok = launch(stream, "norm gradients", kernel, a.tiles * a.chunks, 32 * kSlots, a);
      !ok || a.chunks == 1)
    return ok;
  return totals(stream, a);
}

// Whether fused_backward can do it.
template <class T>
bool fuses(const NormArguments<T>& n, std::int64_t rows, std::int64_t length, bool dense) {
  return dense && rows > 0 && length > 0 && length <= kFusedLength && n.in[0].rows.rank == 1 &&
         n.in[1].rows.rank == 1 && n.out.rows.rank == 1 && n.rstd_map.rank == 1 &&
         (!n.centered || n.mean_map.rank == 1);
}

template <class T>
Result<void> fused(const Stream& stream, const NormArguments<T>& n, GradientArguments<T> g,
                   const FusedCut& cut) {
  const auto at = [](const auto& v) { return v.data + v.rows.start + v.elements.start; };
  FusedArguments<T> a{};
  a.x = at(n.in[0]);
  a.dy = at(n.in[1]);
  a.dx = at(n.out);
  if (n.weighted) a.weight = n.weight.data + n.weight.elements.start;
  if (n.centered) a.mean = n.mean + n.mean_map.start;
  a.rstd = n.rstd + n.rstd_map.start;
  a.x_stride = n.in[0].rows.stride[0];
  a.dy_stride = n.in[1].rows.stride[0];
  a.dx_stride = n.out.rows.stride[0];
  a.mean_stride = n.mean_map.stride[0];
  a.rstd_stride = n.rstd_map.stride[0];
  a.rows = g.rows;
  g.chunks = ceil_div(g.rows, cut.rows);
  a.length = static_cast<int>(g.length);
  a.chunk = static_cast<int>(cut.rows);
  a.count = n.count;
  a.inverse = (g.length & (g.length - 1)) == 0 ? 1.0f / n.count : 0.0f;
  a.partials = g.partials;
  const auto kernel = cut.runs == 2
                          ? (n.centered ? fused_backward<T, true, 2> : fused_backward<T, false, 2>)
                          : (n.centered ? fused_backward<T, true, 1> : fused_backward<T, false, 1>);
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, cut.memory),
          "norm backward");
      !ok)
    return ok;
  if (auto ok = launch_next_with(stream, "norm backward", static_cast<std::size_t>(cut.memory),
                                 kernel, g.chunks, cut.threads, a);
      !ok)
    return ok;
  return totals(stream, g);
}

template <class T>
Result<void> run(const Stream& stream, Workspace workspace, const NormProblem& p,
                 const Operands& operands) {
  const std::int64_t length = p.length();
  const bool backward = p.backward();
  NormArguments<T> a{};
  a.in[0] = RowView<const T>::make(operands[0], p.along(), length);
  a.centered = p.centered();
  a.weighted = p.weighted;
  a.biased = p.biased && !backward;
  a.eps = static_cast<Compute<T>>(p.eps);
  a.count = static_cast<Compute<T>>(length);
  const View& mean = operands[backward ? static_cast<int>(o::bmean) : static_cast<int>(o::mean)];
  const View& rstd = operands[backward ? static_cast<int>(o::brstd) : static_cast<int>(o::rstd)];
  const View& weight =
      operands[backward ? static_cast<int>(o::bweight) : static_cast<int>(o::weight)];
  if (a.centered) a.mean = static_cast<Compute<T>*>(mean.data);
  if (a.centered) a.mean_map = AxisMap::of(axes_walk(mean, ~0u));
  a.rstd = static_cast<Compute<T>*>(rstd.data);
  a.rstd_map = AxisMap::of(axes_walk(rstd, ~0u));
  if (a.weighted) a.weight = RowView<const T>::make(weight, ~0u, length);
  if (a.biased) a.bias = RowView<const T>::make(operands[o::bias], ~0u, length);
  a.out = RowView<T>::make(operands[backward ? static_cast<int>(o::dx) : static_cast<int>(o::y)],
                           p.along(), length);
  const bool dense = a.in[0].dense && a.out.dense && (!a.weighted || a.weight.dense) &&
                     (!a.biased || a.bias.dense) && a.rstd_map.rank == 1 &&
                     (!a.centered || a.mean_map.rank == 1);
  const auto launch_way = [&](const char* name, const auto& kernel_of) {
    return visit_way(a.shape.way, [&](auto way) {
      return launch(stream, name, kernel_of(way), a.shape.blocks(), a.shape.threads(),
                    a.template as<way()>());
    });
  };
  if (!backward) {
    a.shape = RowShape::make<T, 1>(p.rows(), length, dense);
    return launch_way("norm", [](auto way) { return norm_forward<T, way()>; });
  }
  a.in[1] = RowView<const T>::make(operands[o::dy], p.along(), length);
  if ((p.weighted || p.biased) && length > 0) {
    const auto g = make_gradients<T>(workspace, p, a, operands);
    if constexpr (sizeof(T) < 8)
      if (fuses(a, p.rows(), length, dense && a.in[1].dense)) {
        const FusedCut cut = fused_cut(p.rows(), length, static_cast<int>(sizeof(T)));
        if (has_shared_memory(stream, static_cast<std::size_t>(cut.memory)))
          return fused(stream, a, g, cut);
      }
    if (auto ok = gradients<T>(stream, g); !ok) return ok;
  }
  if (length == 0) return {};
  a.shape = RowShape::make<T, 2>(p.rows(), length, dense && a.in[1].dense);
  return launch_way("norm backward", [](auto way) { return norm_backward<T, way()>; });
}

}  // namespace
}  // namespace row_device

Result<void> norm_cuda(const Stream& stream, Workspace workspace, const NormProblem& p,
                       const Operands& operands) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_float(p.element_dtype, [&](auto type) {
    return row_device::run<typename decltype(type)::type>(stream, workspace, p, operands);
  });
}

}  // namespace planck
