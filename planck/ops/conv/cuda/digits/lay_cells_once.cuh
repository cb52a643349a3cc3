// Rows of cells for dweight of exact, of channels that a block keeps in shared memory: it finds the
// exponent and lays the digits, reading once. They lie as lay_cells.cuh lays them, which needs
// exponents before, and knows channels of any size and order.
#pragma once

#include "planck/ops/conv/cuda/digits/lay_cells.cuh"

namespace planck::conv_device {

struct CellsAtOnce {
  CellSource to;
  int pixels, row;   // of an image; floats from image to image in shared memory
  Divisor of_image;  // pieces of 32 pixels
  Divisor of_cell;   // pieces of 16 images
  static constexpr int kMostShared = 56 * 1024;

  explicit CellsAtOnce(const CellSource& source)
      : to(source),
        pixels(std::max(1, to.high * to.wide)),
        row(pixels | 1),
        of_image(static_cast<std::uint32_t>(ceil_div(pixels, 32))),
        of_cell(static_cast<std::uint32_t>(to.images / 16)) {}
  std::int64_t shared() const { return std::int64_t{to.batch} * row * 4; }
  // Where an image's pixels are neighbours, and so few that several blocks share a processor.
  bool fits() const {
    return !to.along_channels && to.x.strides[3] == 1 && to.x.strides[2] == to.wide &&
           shared() <= kMostShared;
  }
  int threads() const { return shared() > 48 * 1024 ? 512 : shared() > 24 * 1024 ? 256 : 128; }

  // All images of a channel, NaN and infinities as zeros.
  __device__ Largest keep(float* room, int channel) const {
    constexpr int kTogether = 16;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const float* const from = static_cast<const float*>(to.x.data) + channel * to.x.strides[1];
    const int all = to.batch * static_cast<int>(of_image.value);
    const auto image_of = [&](int piece) {
      return static_cast<int>(of_image.quotient(static_cast<std::uint32_t>(piece)));
    };
    const auto pixel_of = [&](int piece) {
      return static_cast<int>(of_image.remainder(static_cast<std::uint32_t>(piece))) * 32 + lane;
    };
    Largest found{0, 0};
#pragma unroll 1
    for (int first = warp * kTogether; first < all;
         first += static_cast<int>(blockDim.x) / 32 * kTogether) {
      const auto piece = [&](int i) { return min(first + i, all - 1); };
      float v[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int n = image_of(piece(i)), p = pixel_of(piece(i));
        v[i] = p < pixels ? from[n * to.x.strides[0] + p] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int n = image_of(piece(i)), p = pixel_of(piece(i));
        found.see(v[i]);
        if (p < pixels)
          room[n * row + p] = math::exact::magnitude_of(v[i]) < 0x7f800000u ? v[i] : 0.0f;
      }
    }
    return found;
  }

  // 16 images of a cell for each thread in turn.
  __device__ void lay(const float* room, int channel, const gemm_device::Cutter& cut) const {
    const int pieces = static_cast<int>(of_cell.value);
    const std::int64_t of_digit = to.channels * to.pitch;
#pragma unroll 1
    for (int part = 0; part < to.parts; ++part) {
      const int h0 = to.remainders[0][part / to.parts_across],
                w0 = to.remainders[1][part % to.parts_across];
      std::int8_t* const out = to.to({0, channel, 0}, part, 0);
#pragma unroll 1
      for (int id = static_cast<int>(threadIdx.x); id < to.cells * pieces;
           id += static_cast<int>(blockDim.x)) {
        const int cell = static_cast<int>(of_cell.quotient(static_cast<std::uint32_t>(id))),
                  n0 = (id - cell * pieces) * 16;
        const int i = static_cast<int>(to.line.quotient(static_cast<std::uint32_t>(cell)));
        const int h = i * to.steps[0] + h0, w = (cell - i * to.cells_wide) * to.steps[1] + w0;
        const bool there = h < to.high && w < to.wide;
        const float* const pixel = room + n0 * row + h * to.wide + w;
        std::uint32_t words[4][kDigits];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          float v[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            v[e] = there && n0 + 4 * q + e < to.batch ? pixel[(4 * q + e) * row] : 0.0f;
          cut(v, words[q]);
        }
#pragma unroll
        for (int d = 0; d < kDigits; ++d)
          *reinterpret_cast<uint4*>(out + d * of_digit + std::int64_t{id} * 16) = {
              words[0][d], words[1][d], words[2][d], words[3][d]};
      }
    }
  }
};

// A channel of either operand for each block, which also tells of its magnitudes; and zeros.
inline __global__ void __launch_bounds__(512, 2)
    lay_cells_at_once(const __grid_constant__ CellsAtOnce first,
                      const __grid_constant__ CellsAtOnce second, uint4* cleared,
                      std::int64_t to_clear) {
  let_next_begin();
  extern __shared__ float room[];  // [image][pixel]
  __shared__ Largest of_block;
  if (threadIdx.x == 0) of_block = {0, 0};
  __syncthreads();
  const int number = static_cast<int>(blockIdx.x);
  const bool is_first = number < first.to.channels;
  const CellsAtOnce& a = is_first ? first : second;
  const int channel = is_first ? number : number - first.to.channels;
  Largest found = a.keep(room, channel);
  found.most = __reduce_max_sync(0xffffffffu, found.most);
  found.odd = __reduce_or_sync(0xffffffffu, found.odd);
  if (threadIdx.x % 32 == 0)
    atomicMax(&of_block.most, found.most), atomicOr(&of_block.odd, found.odd);
  __syncthreads();
  if (threadIdx.x == 0) of_block.tell(a.to.magnitudes, channel, true);
  a.lay(room, channel, gemm_device::Cutter(math::exact::exponent_of(of_block.most)));
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < to_clear;
       i += std::int64_t{gridDim.x} * blockDim.x)
    cleared[i] = {0, 0, 0, 0};
}

// The first of a chain. Also clears so many bytes, a multiple of 16.
inline Result<void> lay_both_at_once(const Stream& stream, const CellsAtOnce& first,
                                     const CellsAtOnce& second, void* cleared, std::size_t bytes) {
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(lay_cells_at_once, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               CellsAtOnce::kMostShared),
          "conv2d_weight");
      !ok)
    return ok;
  const auto shared = static_cast<std::size_t>(std::max(first.shared(), second.shared()));
  lay_cells_at_once<<<static_cast<unsigned>(first.to.channels + second.to.channels),
                      std::max(first.threads(), second.threads()), shared, native(stream)>>>(
      first, second, static_cast<uint4*>(cleared), static_cast<std::int64_t>(bytes / 16));
  return cuda_result(cudaGetLastError(), "conv2d_weight");
}

}  // namespace planck::conv_device
