// The gradient of cross_entropy: rows that are held or of any strides, and dense ones that are too
// long to be held, whose elements need nothing of each other.
#pragma once

#include "planck/ops/softmax/cuda/arguments.cuh"

namespace planck::row_device {

template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) entropy_backward(const SoftmaxArguments<T, kWay> a) {
  using R = RowOf<T, 1, kWay>;
  using C = typename R::C;
  R row(a.shape, a.in);
  if (!row.inside) return;
  const std::int64_t target = a.targets.at(row.row);
  const bool counts = target != a.targets.ignore && target >= 0 && target < a.shape.length;
  const C lse = a.lse[row.row * a.lse_stride], dloss = a.dloss.at(row.row);
  if (!counts) {
    row.map(a.out, [](const C(&)[1], std::int64_t, int, int) { return C(0); });
    return;
  }
  with_exp(row.all_near([&](const C(&x)[1]) { return x[0] - lse; }), [&](const auto& exp) {
    row.map(a.out, [&](const C(&x)[1], std::int64_t i, int, int) {
      const C p = exp(x[0] - lse);
      return dloss * (i == target ? p - C(1) : p);
    });
  });
}

// A dense row of any length: a block goes through it four packs at a time.
inline constexpr int kGradientThreads = 512, kGradientPacks = 4;
template <class T>
__global__ void __launch_bounds__(kGradientThreads)
    entropy_backward_streamed(const SoftmaxArguments<T, RowWay::dense> a) {
  constexpr int kRun = 16 / static_cast<int>(sizeof(T));
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  const auto* const from = reinterpret_cast<const uint4*>(a.in[0].row(row));
  auto* const to = reinterpret_cast<uint4*>(a.out.row(row));
  const std::int64_t target = a.targets.at(row), runs = a.shape.runs;
  const bool counts = target != a.targets.ignore && target >= 0 && target < a.shape.length;
  const float lse = a.lse[row * a.lse_stride], dloss = a.dloss.at(row);
  for (std::int64_t first = threadIdx.x; first < runs; first += kGradientThreads * kGradientPacks) {
    Pack<16> p[kGradientPacks];
    if (counts) {
#pragma unroll
      for (int k = 0; k < kGradientPacks; ++k)
        if (first + k * kGradientThreads < runs)
          p[k] = load_pack<16, true>(from, first + k * kGradientThreads);
    }
#pragma unroll
    for (int k = 0; k < kGradientPacks; ++k) {
      const std::int64_t run = first + k * kGradientThreads;
      if (run >= runs) continue;
      float v[kRun];
      bool near = true;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        v[e] = counts ? element_of<T>(p[k], e) - lse : 0.0f;
        near = near && fabsf(v[e]) <= kNear;
      }
      const std::int64_t at = target - run * kRun;
      const int hit = at >= 0 && at < kRun ? static_cast<int>(at) : -1;
      with_exp(near, [&](const auto& exp) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          const float q = exp(v[e]);
          v[e] = dloss * (e == hit ? q - 1.0f : q);
        }
      });
#pragma unroll
      for (int e = 0; e < kRun; ++e) v[e] = counts ? v[e] : 0.0f;
      store_pack<true>(to, run, pack_of<T, true>(v));
    }
  }
}

}  // namespace planck::row_device
