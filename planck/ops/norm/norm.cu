// cuda:rows. A row is held on chip where it has up to 16 Ki elements: read once, written once. The
// gradients of weight and bias are sums down the rows: a thread has a column and goes down chunks
// of 512 rows, eight slots of 64; the chunks' sums are joined by a second launch.
#include "planck/loops/chain.cuh"
#include "planck/ops/norm/kernels.h"
#include "planck/ops/reduce/held_rows.cuh"
#include "planck/ops/softmax/row.math.h"

namespace planck {

namespace row_device {
namespace {

namespace m = row_math;
namespace o = norm_operand;

template <class T>
struct NormArguments {
  RowShape shape;
  RowView<const T> in[2];  // x; dy
  RowView<const T> weight, bias;
  RowView<T> out;
  bool weighted, biased, centered;
  Compute<T> eps, count;
  Compute<T>* mean;
  Compute<T>* rstd;
  AxisMap mean_map, rstd_map;
};

template <RowWay kWay>
inline constexpr bool kDense = kWay == RowWay::brief || kWay == RowWay::dense;

template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) norm_forward(const NormArguments<T> a) {
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
        weight.template load<kDense<kWay>>(a.weight, a.weighted, run, a.shape.length, C(1));
        bias.template load<kDense<kWay>>(a.bias, a.biased, run, a.shape.length, C(-0.0));
      });
}

template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) norm_backward(const NormArguments<T> a) {
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
    weight.template load<kDense<kWay>>(a.weight, a.weighted, run, a.shape.length, C(1));
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

template <class C>
struct TwoSums {
  C first, second;
};
struct AddTwoSums {
  template <class A>
  __device__ static A of(const A& a, const A& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

template <class T>
struct GradientArguments {
  RowView<const T> x, dy;
  const Compute<T>* mean;  // null: 0
  const Compute<T>* rstd;
  AxisMap mean_map, rstd_map;
  std::int64_t rows, length, chunks, tiles;
  TwoSums<Compute<T>>* partials;
  T* dweight;  // null: not asked for
  T* dbias;
  AxisMap dweight_map, dbias_map;
};

template <class T>
__device__ __forceinline__ void put_gradients(const GradientArguments<T>& a, std::int64_t column,
                                              const TwoSums<Compute<T>>& sum) {
  using reduce_device::stored;
  if (a.dweight != nullptr)
    a.dweight[a.dweight_map.offset(column)] = stored<T>(canonical_nan(sum.first));
  if (a.dbias != nullptr)
    a.dbias[a.dbias_map.offset(column)] = stored<T>(canonical_nan(sum.second));
}

constexpr int kSlots = 8, kSlotRows = static_cast<int>(kNormChunkRows) / kSlots;

// kLines: rows are one axis of every operand.
template <class T, bool kLines>
__global__ void __launch_bounds__(32 * kSlots) gradient_chunks(const GradientArguments<T> a) {
  using C = Compute<T>;
  using A = TwoSums<C>;
  const A nothing{C(-0.0), C(-0.0)};
  __shared__ A shared[kSlots][32];
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = blockIdx.x % a.tiles * 32 + lane, chunk = blockIdx.x / a.tiles;
  const bool inside = column < a.length;
  const std::int64_t xc = inside ? a.x.elements.offset(column) : 0;
  const std::int64_t dc = inside ? a.dy.elements.offset(column) : 0;
  const auto at = [](const AxisMap& map, std::int64_t r) {
    return kLines ? map.start + r * map.stride[0] : map.offset(r);
  };
  std::int64_t row = chunk * kNormChunkRows + slot * kSlotRows;
  A digits[3], sum = nothing;
#pragma unroll 2
  for (int block = 0; block < kSlotRows / 8; ++block, row += 8) {
    // Rows past the end read the last one: no load waits for a condition.
    C x[8], dy[8], mean[8], rstd[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const std::int64_t r = row + k < a.rows ? row + k : a.rows - 1;
      mean[k] = C(0);
      if (a.mean != nullptr) mean[k] = a.mean[at(a.mean_map, r)];
      rstd[k] = a.rstd[at(a.rstd_map, r)];
      x[k] = widen(a.x.data[at(a.x.rows, r) + xc]);
      dy[k] = widen(a.dy.data[at(a.dy.rows, r) + dc]);
    }
    A v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const m::Shared<C> s{mean[k], rstd[k]};
      v[k] = row + k < a.rows ? A{m::HatTerm::of(x[k], dy[k], C(0), s), dy[k]} : nothing;
    }
    sum = reduce_device::join_run<AddTwoSums, 8, A>(v);
    bool open = true;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      if (!open) continue;
      if (((block >> d) & 1) == 0) {
        digits[d] = sum;
        open = false;
      } else {
        sum = AddTwoSums::of(digits[d], sum);
      }
    }
  }
  shared[slot][lane] = sum;
  for (int half = 1; half < kSlots; half *= 2) {
    __syncthreads();
    if ((slot & (2 * half - 1)) == 0)
      shared[slot][lane] = AddTwoSums::of(shared[slot][lane], shared[slot + half][lane]);
  }
  if (slot != 0 || !inside) return;
  if (a.chunks > 1)
    a.partials[chunk * a.length + column] = shared[0][lane];
  else
    put_gradients(a, column, shared[0][lane]);
}

template <class T>
__global__ void __launch_bounds__(128) gradient_totals(const GradientArguments<T> a) {
  using A = TwoSums<Compute<T>>;
  follow();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= a.length) return;
  A digits[40], sum{};
  std::int64_t count = 0;
  for (; count < a.chunks; ++count) {
    A v = a.partials[count * a.length + column];
    int d = 0;
    for (; (count >> d) & 1; ++d) v = AddTwoSums::of(digits[d], v);
    digits[d] = v;
  }
  bool any = false;
  for (int d = 0; (count >> d) != 0; ++d) {
    if (((count >> d) & 1) == 0) continue;
    sum = any ? AddTwoSums::of(digits[d], sum) : digits[d];
    any = true;
  }
  put_gradients(a, column, sum);
}

template <class T>
__global__ void no_gradients(const GradientArguments<T> a) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column < a.length) put_gradients(a, column, TwoSums<Compute<T>>{0, 0});
}

template <class T>
Result<void> gradients(const Stream& stream, Workspace workspace, const NormProblem& p,
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
  if (a.rows == 0)
    return launch(stream, "norm gradients", no_gradients<T>, ceil_div(a.length, 128), 128, a);
  const bool lines = a.x.rows.rank == 1 && a.dy.rows.rank == 1 && a.rstd_map.rank == 1 &&
                     (a.mean == nullptr || a.mean_map.rank == 1);
  const auto kernel = lines ? gradient_chunks<T, true> : gradient_chunks<T, false>;
  if (auto ok = launch(stream, "norm gradients", kernel, a.tiles * a.chunks, 32 * kSlots, a);
      !ok || a.chunks == 1)
    return ok;
  return launch_next(stream, "norm gradients", gradient_totals<T>, ceil_div(a.length, 128), 128, a);
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
                     (!a.biased || a.bias.dense);
  const auto launch_way = [&](const char* name, const auto& kernel_of) {
    return visit_way(a.shape.way, [&](auto way) {
      return launch(stream, name, kernel_of(way), a.shape.blocks(), a.shape.threads(), a);
    });
  };
  if (!backward) {
    a.shape = RowShape::make<T, 1>(p.rows(), length, dense);
    return launch_way("norm", [](auto way) { return norm_forward<T, way()>; });
  }
  a.in[1] = RowView<const T>::make(operands[o::dy], p.along(), length);
  if ((p.weighted || p.biased) && length > 0)
    if (auto ok = gradients<T>(stream, workspace, p, a, operands); !ok) return ok;
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
