// Weights laid along k as the copy engine's walk has it: (tap, channel), each tap's channels filled
// up to whole blocks.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/ops/conv/cuda/operands.cuh"
#include "planck/ops/conv/host/walk.h"

namespace planck::conv_device {

// Where they lie, if they lie so: of y, channels side by side.
template <class T>
std::optional<gemm_device::TensorOperand> filters_along_k(const ConvProblem& p, const View& weight,
                                                          const conv_detail::WindowWalk& walk) {
  const Strides& s = weight.strides;
  const std::int64_t c = weight.shape[1], u = weight.shape[2], v = weight.shape[3];
  const bool along = (c == 1 || s[1] == 1) && (v == 1 || s[3] == c) && (u == 1 || s[2] == v * c);
  if (p.kind != ConvKind::conv2d || !along) return std::nullopt;
  if (walk.taps > 1 && c != std::int64_t{walk.blocks} * walk.block) return std::nullopt;
  const gemm_device::TensorOperand x{
      weight.data, weight.shape[0], std::int64_t{walk.taps} * c, s[0], 1, 1, 0};
  return gemm_device::copyable(x, sizeof(T)) ? std::optional(x) : std::nullopt;
}

// The same of dx, whose channels lie beside one another for each filter: [tap][filter][channel].
template <class T>
std::optional<gemm_device::TensorOperand> filters_across_k(const ConvProblem& p,
                                                           const View& weight) {
  const Strides& s = weight.strides;
  const std::int64_t f = weight.shape[0], c = weight.shape[1], u = weight.shape[2],
                     v = weight.shape[3];
  const std::int64_t step = v > 1 ? s[3] : u > 1 ? s[2] : 0;
  const bool across = sizeof(T) == 2 && s[1] == 1 && (u == 1 || v == 1 || s[2] == v * step);
  if (p.kind != ConvKind::conv2d_input || !across || (u * v > 1 && step == 0)) return std::nullopt;
  const gemm_device::TensorOperand x{weight.data, c, f, 1, s[0], u * v, step};
  return gemm_device::copyable(x, sizeof(T)) ? std::optional(x) : std::nullopt;
}

inline constexpr int kFilterThreads = 128;

// out: [row][tap][channels of whole blocks]. A thread has a chunk of 16 bytes of each tap.
template <class E>
__global__ void __launch_bounds__(kFilterThreads)
    lay_filters_kernel(Windows w, WeightOperand weight, std::int64_t rows, int pitch, E* out) {
  constexpr int kChunk = 16 / int{sizeof(E)};
  const int chunks = pitch / kChunk, taps = static_cast<int>(w.taps());
  const std::int64_t id = std::int64_t{blockIdx.x} * kFilterThreads + threadIdx.x;
  const std::int64_t row = id / chunks;
  const int c = static_cast<int>(id % chunks) * kChunk;
  if (row >= rows) return;
  for (int tap = 0; tap < taps; ++tap) {
    __align__(16) E v[kChunk];
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      v[e] = c + e < w.channels ? weight.at<E>(w, 0, row, tap, c + e) : E{0};
    *reinterpret_cast<uint4*>(out + (row * taps + tap) * pitch + c) =
        *reinterpret_cast<const uint4*>(v);
  }
}

template <class E>
Result<void> lay_filters(const Stream& stream, const Windows& w,
                         const conv_detail::WindowWalk& walk, const WeightOperand& weight,
                         std::int64_t rows, E* out) {
  const int pitch = walk.blocks * walk.block;
  const std::int64_t threads = rows * pitch / std::int64_t{16 / sizeof(E)};
  return launch(stream, "conv2d", lay_filters_kernel<E>, ceil_div(threads, kFilterThreads),
                kFilterThreads, w, weight, rows, pitch, out);
}

}  // namespace planck::conv_device
