// cuda:rows: the definition itself, on any GPU, for every dtype, math and stride. A warp has one
// query (dk and dv: one key): its lanes have scores, 128 at a time, which then lie in shared memory
// as weights, and columns of what is summed. Products of tensor_core math are integer arithmetic
// (planck/math/products/tensor_core.h). README.md says how a kernel of tensor cores would go.
#include <algorithm>

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/math/pairwise_sum.h"
#include "planck/math/products/tensor_core.h"
#include "planck/ops/attention/attention.math.h"
#include "planck/ops/attention/cuda/kernels.h"

namespace planck {

namespace {

namespace element = attention_math;
namespace rule = math::tensor_core;
using Index = std::int64_t;

constexpr int kWarps = 4, kRows = element::kBlock, kColumns = kMostHeadWidth / 32;
constexpr unsigned kAll = 0xffffffffu;

struct Operand {
  void* data;
  Index stride[4];
};

struct Call {
  Operand q, k, v, mask, y, lse, dy, dq, dk, dv;
  Index batch, heads, groups, queries, keys;
  int width, out_width;
  double scale;
  Index window;
  bool causal, masked, boolean;
  void* delta;  // of the compute type, [N, H, L]
};

template <class T>
__device__ const T* at(const Operand& x, Index n, Index head, Index row) {
  return static_cast<const T*>(x.data) + n * x.stride[0] + head * x.stride[1] + row * x.stride[2];
}

template <class T>
using FormatOf =
    std::conditional_t<std::is_same_v<T, bf16>, rule::Bf16,
                       std::conditional_t<std::is_same_v<T, f16>, rule::F16, rule::Tf32>>;

// Weights of 128 rows, in shared memory: as they are (chain), or as bits of the format.
template <class T, bool kChain>
using Weight = std::conditional_t<kChain, Compute<T>, typename FormatOf<T>::Bits>;

template <class T, bool kChain>
__device__ Weight<T, kChain> weight_of(Compute<T> p) {
  if constexpr (kChain)
    return p;
  else if constexpr (sizeof(T) == 2)
    return static_cast<std::uint16_t>(rounded_pair<T>(p, 0.0f));
  else
    return math::bits_of(p) & 0xffffe000u;
}

template <class T, bool kChain>
__device__ Compute<T> product(const T* a, Index a_step, const T* b, Index b_step, int n) {
  if constexpr (kChain) {
    Compute<T> c = 0;
    for (int i = 0; i < n; ++i) c = math::fma_of(widen(a[i * a_step]), widen(b[i * b_step]), c);
    return c;
  } else {
    using Bits = typename FormatOf<T>::Bits;
    return rule::product<FormatOf<T>>(reinterpret_cast<const Bits*>(a), a_step,
                                      reinterpret_cast<const Bits*>(b), b_step, n);
  }
}

// c + the sum of weights[i] * x[i], i < n <= 128; where a weight is 0 so is the other factor.
template <class T, bool kChain>
__device__ Compute<T> add_weighted(Compute<T> c, const Weight<T, kChain>* weights, const T* x,
                                   Index step, int n) {
  if constexpr (kChain) {
    for (int i = 0; i < n; ++i)
      if (weights[i] != 0) c = math::fma_of(weights[i], widen(x[i * step]), c);
  } else {
    using Format = FormatOf<T>;
    using Bits = typename Format::Bits;
    for (int first = 0; first < n; first += Format::kBlock) {
      Bits a[Format::kBlock], b[Format::kBlock];
      for (int i = 0; i < Format::kBlock; ++i) {
        a[i] = first + i < n ? weights[first + i] : Bits{0};
        const bool zero = static_cast<Bits>(a[i] << 1) == 0;
        b[i] = zero ? Bits{0} : reinterpret_cast<const Bits*>(x)[(first + i) * step];
      }
      c = rule::add_block<Format>(c, a, b);
    }
  }
  return c;
}

template <class T>
__device__ void store(const Operand& x, Index n, Index head, Index row, int column, Compute<T> v) {
  T* const to = const_cast<T*>(at<T>(x, n, head, row)) + column * x.stride[3];
  if constexpr (sizeof(T) == 2)
    *to = T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(v, 0.0f)));
  else
    *to = canonical_nan(v);
}

// Keys that query i sees, and queries that see key j: [first, end).
struct Range {
  Index first, end;
  __device__ bool has(Index x) const { return first <= x && x < end; }
};
__device__ Index clamped(Index x, Index most) { return x < 0 ? 0 : x > most ? most : x; }
__device__ Range keys_of(const Call& c, Index i) {
  if (!c.causal) return {0, c.keys};
  const Index end = clamped(i + c.keys - c.queries + 1, c.keys);
  return {c.window == 0 ? 0 : clamped(end - c.window, c.keys), end};
}
__device__ Range queries_of(const Call& c, Index j) {
  if (!c.causal) return {0, c.queries};
  const Index first = j - (c.keys - c.queries);
  return {clamped(first, c.queries),
          c.window == 0 ? c.queries : clamped(first + c.window, c.queries)};
}

template <class T, bool kChain>
__device__ Compute<T> score(const Call& c, Index n, Index head, Index i, Index j) {
  using C = Compute<T>;
  const Index group = head / (c.heads / c.groups);
  const C s = product<T, kChain>(at<T>(c.q, n, head, i), c.q.stride[3], at<T>(c.k, n, group, j),
                                 c.k.stride[3], c.width);
  const C scale = static_cast<C>(c.scale);
  if (!c.masked) return element::score(s, scale);
  const Index place =
      n * c.mask.stride[0] + head * c.mask.stride[1] + i * c.mask.stride[2] + j * c.mask.stride[3];
  if (!c.boolean)
    return element::score(s, scale, C(widen(static_cast<const T*>(c.mask.data)[place])));
  const bool hidden = static_cast<const std::uint8_t*>(c.mask.data)[place] != 0;
  return hidden ? -math::infinity_of(C(0)) : element::score(s, scale, C(0));
}

// The rows of this warp: one after the other.
__device__ Index first_row() { return Index{blockIdx.x} * kWarps + threadIdx.x / 32; }
__device__ Index row_step() { return Index{gridDim.x} * kWarps; }

template <class T, bool kChain>
__global__ void forward(Call c) {
  using C = Compute<T>;
  __shared__ C shared_powers[kWarps][kRows];
  __shared__ Weight<T, kChain> shared_weights[kWarps][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  C* const powers = shared_powers[warp];
  Weight<T, kChain>* const weights = shared_weights[warp];
  const C hidden = -math::infinity_of(C(0));
  for (Index row = first_row(); row < c.batch * c.heads * c.queries; row += row_step()) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads, group = head / (c.heads / c.groups);
    const Range seen = keys_of(c, i);
    C m = hidden, part = 0, sums[kColumns] = {};
    for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
      const int count = static_cast<int>(c.keys - start < kRows ? c.keys - start : kRows);
      C t[kRows / 32], now = m;
      for (int x = 0; x < kRows / 32; ++x) {
        const Index j = start + lane + 32 * x;
        t[x] = seen.has(j) ? score<T, kChain>(c, n, head, i, j) : hidden;
        now = element::larger(now, t[x]);
      }
      for (int by = 16; by > 0; by /= 2) now = element::larger(now, __shfl_xor_sync(kAll, now, by));
      const C factor = element::power(m - now);
      m = now;
      __syncwarp();
      for (int x = 0; x < kRows / 32; ++x) {
        const C p = element::power(t[x] - m);
        powers[lane + 32 * x] = p;
        weights[lane + 32 * x] = weight_of<T, kChain>(p);
      }
      __syncwarp();
      if (lane < element::kPartialSums) {
        part *= factor;
        for (int r = lane; r < count; r += element::kPartialSums) part += powers[r];
      }
      for (int x = 0; x < kColumns; ++x)
        if (const int e = lane + 32 * x; e < c.out_width)
          sums[x] = add_weighted<T, kChain>(sums[x] * factor, weights,
                                            at<T>(c.v, n, group, start) + e * c.v.stride[3],
                                            c.v.stride[2], count);
    }
    C parts[element::kPartialSums];
    for (int k = 0; k < element::kPartialSums; ++k) parts[k] = __shfl_sync(kAll, part, k);
    const C l = element::sum_of_parts(parts, 1), factor = element::row_factor(m, l);
    for (int x = 0; x < kColumns; ++x)
      if (const int e = lane + 32 * x; e < c.out_width)
        store<T>(c.y, n, head, i, e, element::result(sums[x], factor));
    if (lane == 0) *const_cast<C*>(at<C>(c.lse, n, head, i)) = element::log_sum_exp(m, l);
  }
}

template <class T>
__global__ void find_delta(Call c) {
  using C = Compute<T>;
  const Index rows = c.batch * c.heads * c.queries;
  for (Index row = Index{blockIdx.x} * blockDim.x + threadIdx.x; row < rows;
       row += Index{gridDim.x} * blockDim.x) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads;
    const T *y = at<T>(c.y, n, head, i), *dy = at<T>(c.dy, n, head, i);
    PairwiseSum<C, 9> sum;
    for (int e = 0; e < c.out_width; ++e)
      sum.add(C(widen(dy[e * c.dy.stride[3]])) * C(widen(y[e * c.y.stride[3]])));
    static_cast<C*>(c.delta)[row] = sum.result();
  }
}

// p and ds of one query and key.
template <class C>
struct Slope {
  C p, ds;
};
template <class T, bool kChain>
__device__ Slope<Compute<T>> slope(const Call& c, Index n, Index head, Index i, Index j) {
  using C = Compute<T>;
  const Index group = head / (c.heads / c.groups);
  const C t = score<T, kChain>(c, n, head, i, j), lse = *at<C>(c.lse, n, head, i);
  const C p = element::probability(t, lse);
  const C dp = product<T, kChain>(at<T>(c.dy, n, head, i), c.dy.stride[3], at<T>(c.v, n, group, j),
                                  c.v.stride[3], c.out_width);
  const C delta = static_cast<const C*>(c.delta)[(n * c.heads + head) * c.queries + i];
  return {p, element::slope(p, dp, delta)};
}

template <class T, bool kChain>
__global__ void find_dq(Call c) {
  using C = Compute<T>;
  __shared__ Weight<T, kChain> shared_weights[kWarps][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Weight<T, kChain>* const weights = shared_weights[threadIdx.x / 32];
  for (Index row = first_row(); row < c.batch * c.heads * c.queries; row += row_step()) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads, group = head / (c.heads / c.groups);
    const Range seen = keys_of(c, i);
    C sums[kColumns] = {};
    for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
      const int count = static_cast<int>(c.keys - start < kRows ? c.keys - start : kRows);
      __syncwarp();
      for (int r = lane; r < kRows; r += 32) {
        const bool sees = seen.has(start + r);
        weights[r] =
            weight_of<T, kChain>(sees ? slope<T, kChain>(c, n, head, i, start + r).ds : C(0));
      }
      __syncwarp();
      for (int x = 0; x < kColumns; ++x)
        if (const int d = lane + 32 * x; d < c.width)
          sums[x] = add_weighted<T, kChain>(sums[x], weights,
                                            at<T>(c.k, n, group, start) + d * c.k.stride[3],
                                            c.k.stride[2], count);
    }
    for (int x = 0; x < kColumns; ++x)
      if (const int d = lane + 32 * x; d < c.width)
        store<T>(c.dq, n, head, i, d, element::result(sums[x], static_cast<C>(c.scale)));
  }
}

template <class T, bool kChain>
__global__ void find_dk_dv(Call c) {
  using C = Compute<T>;
  __shared__ Weight<T, kChain> shared_weights[kWarps][2][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& weights = shared_weights[threadIdx.x / 32];
  const Index in_group = c.heads / c.groups;
  for (Index row = first_row(); row < c.batch * c.groups * c.keys; row += row_step()) {
    const Index j = row % c.keys, group = row / c.keys % c.groups, n = row / c.keys / c.groups;
    const Range seen = queries_of(c, j);
    C dk[kColumns] = {}, dv[kColumns] = {};
    for (Index head = group * in_group; head < (group + 1) * in_group; ++head)
      for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
        const int count = static_cast<int>(c.queries - start < kRows ? c.queries - start : kRows);
        __syncwarp();
        for (int r = lane; r < kRows; r += 32) {
          const Slope<C> s =
              seen.has(start + r) ? slope<T, kChain>(c, n, head, start + r, j) : Slope<C>{0, 0};
          weights[0][r] = weight_of<T, kChain>(s.p);
          weights[1][r] = weight_of<T, kChain>(s.ds);
        }
        __syncwarp();
        for (int x = 0; x < kColumns; ++x) {
          const int e = lane + 32 * x;
          if (e < c.out_width)
            dv[x] = add_weighted<T, kChain>(dv[x], weights[0],
                                            at<T>(c.dy, n, head, start) + e * c.dy.stride[3],
                                            c.dy.stride[2], count);
          if (e < c.width)
            dk[x] = add_weighted<T, kChain>(dk[x], weights[1],
                                            at<T>(c.q, n, head, start) + e * c.q.stride[3],
                                            c.q.stride[2], count);
        }
      }
    for (int x = 0; x < kColumns; ++x) {
      const int e = lane + 32 * x;
      if (e < c.out_width) store<T>(c.dv, n, group, j, e, element::result(dv[x], C(1)));
      if (e < c.width)
        store<T>(c.dk, n, group, j, e, element::result(dk[x], static_cast<C>(c.scale)));
    }
  }
}

Operand operand_of(const View& x) {
  Operand o{x.data, {}};
  for (int d = 0; d < x.shape.rank(); ++d) o.stride[d] = x.strides[d];
  return o;
}

std::int64_t blocks_for(Index rows, int each) {
  return std::min<std::int64_t>(ceil_div(rows, each), 1 << 20);
}

template <class T, bool kChain>
Result<void> run(const Stream& stream, const AttentionProblem& p, const Call& c) {
  const Index rows = c.batch * c.heads * c.queries, keys = c.batch * c.groups * c.keys;
  constexpr int kThreads = 32 * kWarps;
  const char* const name = p.backward() ? "attention_backward" : "attention";
  if (!p.backward())
    return launch(stream, name, forward<T, kChain>, blocks_for(rows, kWarps), kThreads, c);
  if (auto ok = launch(stream, name, find_delta<T>, blocks_for(rows, kThreads), kThreads, c); !ok)
    return ok;
  if (auto ok = launch(stream, name, find_dq<T, kChain>, blocks_for(rows, kWarps), kThreads, c);
      !ok)
    return ok;
  return launch(stream, name, find_dk_dv<T, kChain>, blocks_for(keys, kWarps), kThreads, c);
}

template <class T>
Result<void> run_as(const Stream& stream, const AttentionProblem& p, const Call& c) {
  if constexpr (!std::is_same_v<T, double>)
    if (p.math() == ProductMath::tensor_core) return run<T, false>(stream, p, c);
  return run<T, true>(stream, p, c);
}

}  // namespace

Result<void> attention_cuda(const Stream& stream, Workspace workspace, const AttentionProblem& p,
                            const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  Call c{};
  c.q = operand_of(o[attention_operand::q]);
  c.k = operand_of(o[attention_operand::k]);
  c.v = operand_of(o[attention_operand::v]);
  c.y = operand_of(o[attention_operand::y]);
  c.lse = operand_of(o[attention_operand::lse]);
  if (p.mask) c.mask = operand_of(o[attention_operand::mask]);
  if (p.backward()) {
    c.dy = operand_of(o[attention_operand::dy]);
    c.dq = operand_of(o[attention_operand::dq]);
    c.dk = operand_of(o[attention_operand::dk]);
    c.dv = operand_of(o[attention_operand::dv]);
  }
  c.batch = p.batch(), c.heads = p.heads(), c.groups = p.groups();
  c.queries = p.queries(), c.keys = p.keys();
  c.width = static_cast<int>(p.width()), c.out_width = static_cast<int>(p.out_width());
  c.scale = p.scale(), c.causal = p.options.causal, c.window = p.options.window;
  c.masked = p.mask.has_value(), c.boolean = p.mask == Dtype::boolean;
  c.delta = workspace.data;
  switch (p.element_dtype) {
    case Dtype::f64:
      return run_as<double>(stream, p, c);
    case Dtype::f32:
      return run_as<float>(stream, p, c);
    case Dtype::f16:
      return run_as<f16>(stream, p, c);
    default:
      return run_as<bf16>(stream, p, c);
  }
}

}  // namespace planck
