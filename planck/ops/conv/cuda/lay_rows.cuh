// Windows, slopes and weights laid side by side along k, as the copy engine brings them to tensor
// cores: elements as they are, or planes of digits for exact sums.
//
// A source says what a chunk of k neighbours of a row is, a writer where it goes.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"

namespace planck::conv_device {

// The bits of an element, as it is laid.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, float>;

// Windows of an image with 32-bit coordinates.
struct WindowSource {
  Tensor4 image;
  int high, wide, taps_across;
  int at[2], per_place[2], per_tap[2], extent[2];
  int channels, tap_depth, depth;  // in a group
  std::int64_t places;             // beyond them all is zero
  bool finite_only;                // NaN and infinities read as zeros

  WindowSource(const Windows& w, const View& v, bool drop)
      : image(v),
        high(static_cast<int>(w.down.places)),
        wide(static_cast<int>(w.across.places)),
        taps_across(static_cast<int>(w.across.taps)),
        channels(static_cast<int>(w.channels)),
        tap_depth(static_cast<int>(w.tap_depth)),
        depth(static_cast<int>(w.depth())),
        places(w.places()),
        finite_only(drop) {
    const conv_detail::WindowAxis* axes[2] = {&w.down, &w.across};
    for (int d = 0; d < 2; ++d) {
      at[d] = static_cast<int>(axes[d]->at), per_place[d] = static_cast<int>(axes[d]->per_place);
      per_tap[d] = static_cast<int>(axes[d]->per_tap);
      extent[d] = static_cast<int>(axes[d]->extent);
    }
  }
  struct Spot {
    std::int64_t n;
    int i, j;
  };
  __device__ Spot spot(std::int64_t place) const {
    const std::int64_t line = place / wide;
    return {line / high, static_cast<int>(line % high), static_cast<int>(place - line * wide)};
  }
  // Channel 0 of a tap at a place, or null in the border.
  template <class T>
  __device__ const T* tap_at(const Spot& s, int tap) const {
    const int u = tap / taps_across, v = tap - u * taps_across;
    const int h = at[0] + s.i * per_place[0] + u * per_tap[0];
    const int w = at[1] + s.j * per_place[1] + v * per_tap[1];
    if (h < 0 || h >= extent[0] || w < 0 || w >= extent[1]) return nullptr;
    return static_cast<const T*>(image.data) + s.n * image.strides[0] + h * image.strides[2] +
           w * image.strides[3];
  }
  template <class T>
  __device__ T kept(T v) const {
    if constexpr (std::is_same_v<T, float>)
      if (finite_only && math::exact::magnitude_of(v) >= 0x7f800000u) return 0.0f;
    return v;
  }
};

// Row r is place first + r; k is (tap, channel), from first_k on.
template <class E>
struct PlaceRows {
  using Element = E;  // the bits of an element
  WindowSource source;
  std::int64_t first;
  int first_k, count_k;
  bool packs;  // 16 bytes of channels at a time, where they lie

  template <int kChunk>
  __device__ void read(int group, std::int64_t row, std::int64_t k0, E (&v)[kChunk]) const {
    const std::int64_t place = first + row;
    const int k = first_k + static_cast<int>(k0), end = min(first_k + count_k, source.depth);
    const auto spot = source.spot(place);
    const bool inside = place < source.places;
    int tap = k / source.tap_depth, c = k - tap * source.tap_depth;
    const std::int64_t step = source.image.strides[1];
    if (c + kChunk <= source.tap_depth && k + kChunk <= end) {
      const E* from = inside ? source.tap_at<E>(spot, tap) : nullptr;
      if (from != nullptr) from += (std::int64_t{group} * source.channels + c) * step;
      if (packs) {
        constexpr int kPacks = kChunk * int{sizeof(E)} / 16;
#pragma unroll
        for (int i = 0; i < kPacks; ++i)
          reinterpret_cast<uint4*>(v)[i] = from != nullptr && c < source.channels
                                               ? __ldg(reinterpret_cast<const uint4*>(from) + i)
                                               : uint4{0, 0, 0, 0};
      } else {
#pragma unroll
        for (int e = 0; e < kChunk; ++e)
          v[e] = from != nullptr && c + e < source.channels ? from[e * step] : E{0};
      }
    } else {
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        const E* const from =
            inside && k + e < end && c < source.channels ? source.tap_at<E>(spot, tap) : nullptr;
        v[e] = from != nullptr ? from[(std::int64_t{group} * source.channels + c) * step] : E{0};
        if (++c == source.tap_depth) c = 0, ++tap;
      }
    }
#pragma unroll
    for (int e = 0; e < kChunk; ++e) v[e] = source.kept(v[e]);
  }
  std::int64_t groups;
  __device__ std::int64_t key(int group, std::int64_t row) const {
    return source.spot(first + row).n * groups + group;
  }
};

// Row r is (tap, channel) first_row + r of one group; k is places of chunks, from first on. A
// batch is a chunk: chunks lie chunk_places apart.
template <class E>
struct TapRows {
  using Element = E;
  WindowSource source;
  int group;
  std::int64_t first, chunk_places;
  int first_row;

  template <int kChunk>
  __device__ void read(int chunk, std::int64_t row, std::int64_t k0, E (&v)[kChunk]) const {
    const int q = first_row + static_cast<int>(row), tap = q / source.channels;
    const std::int64_t c = std::int64_t{group} * source.channels + (q - tap * source.channels);
    const std::int64_t place = first + chunk * chunk_places + k0;
    auto spot = source.spot(place);
#pragma unroll
    for (int e = 0; e < kChunk; ++e) {
      const bool inside = place + e < source.places && k0 + e < chunk_places;
      const E* const from = inside ? source.tap_at<E>(spot, tap) : nullptr;
      v[e] = source.kept(from != nullptr ? from[c * source.image.strides[1]] : E{0});
      if (++spot.j == source.wide) {
        spot.j = 0;
        if (++spot.i == source.high) spot.i = 0, ++spot.n;
      }
    }
  }
  __device__ std::int64_t key(int, std::int64_t row) const {
    return std::int64_t{group} * source.channels + (first_row + row) % source.channels;
  }
};

// Rows of weights; k as in the windows.
template <class E>
struct WeightRows {
  using Element = E;
  Windows w;
  WeightOperand weight;
  std::int64_t rows;
  bool finite_only;

  template <int kChunk>
  __device__ void read(int group, std::int64_t row, std::int64_t k0, E (&v)[kChunk]) const {
#pragma unroll
    for (int e = 0; e < kChunk; ++e) {
      const std::int64_t k = k0 + e, tap = k / w.tap_depth, c = k % w.tap_depth;
      v[e] = k < w.depth() && c < w.channels ? weight.at<E>(w, group, row, tap, c) : E{0};
      if constexpr (std::is_same_v<E, float>)
        if (finite_only && math::exact::magnitude_of(v[e]) >= 0x7f800000u) v[e] = 0;
    }
  }
  __device__ std::int64_t key(int group, std::int64_t row) const { return group * rows + row; }
};

// One group of a source, as its only batch.
template <class Source>
struct OfGroup {
  using Element = typename Source::Element;
  Source source;
  int group;
  template <int kChunk>
  __device__ void read(int, std::int64_t row, std::int64_t k, Element (&v)[kChunk]) const {
    source.read(group, row, k, v);
  }
};

// [batch][row][pitch], 16 bytes at a time.
template <class E>
struct Plain {
  static constexpr int kChunk = 16 / int{sizeof(E)};
  E* out;
  std::int64_t rows, pitch;
  template <class Source>
  __device__ void write(const Source&, int batch, std::int64_t row, std::int64_t k,
                        const E (&v)[kChunk]) const {
    *reinterpret_cast<uint4*>(out + (batch * rows + row) * pitch + k) =
        *reinterpret_cast<const uint4*>(v);
  }
};
// [batch][digit][row][pitch] and exponents [batch][row].
struct Planes {
  static constexpr int kChunk = 16;
  std::int8_t* out;
  std::int64_t rows, pitch;
  Magnitudes magnitudes;
  int* exponents;  // or null
  template <class Source>
  __device__ void write(const Source& source, int batch, std::int64_t row, std::int64_t k,
                        const float (&v)[kChunk]) const {
    const int e = magnitudes.exponent(source.key(batch, row));
    if (exponents != nullptr && k == 0) exponents[batch * rows + row] = e;
    const gemm_device::Cutter cut(e);
    std::uint32_t words[4][3];
#pragma unroll
    for (int i = 0; i < 4; ++i) cut(v + 4 * i, words[i]);
#pragma unroll
    for (int d = 0; d < 3; ++d)
      *reinterpret_cast<uint4*>(out + ((std::int64_t{batch} * 3 + d) * rows + row) * pitch + k) = {
          words[0][d], words[1][d], words[2][d], words[3][d]};
  }
};

inline constexpr int kLayRowsThreads = 256;

// Lanes go along rows, or along k. One batch for each z of the grid.
template <class Source, class Writer>
__global__ void __launch_bounds__(kLayRowsThreads)
    lay_rows(Source source, Writer writer, std::int64_t rows, int chunks, bool along_rows) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = along_rows ? std::int64_t{blockIdx.x} * kLayRowsThreads + thread
                                      : std::int64_t{blockIdx.x} * 8 + thread / 32;
  const int chunk = static_cast<int>(along_rows ? blockIdx.y : blockIdx.y * 32 + thread % 32);
  if (row >= rows || chunk >= chunks) return;
  __align__(16) typename Source::Element v[Writer::kChunk];
  const std::int64_t k = std::int64_t{chunk} * Writer::kChunk;
  source.read(static_cast<int>(blockIdx.z), row, k, v);
  writer.write(source, static_cast<int>(blockIdx.z), row, k, v);
}

// pitch is a multiple of the writer's chunk.
template <class Source, class Writer>
Result<void> lay(const Stream& stream, const Source& source, const Writer& writer,
                 std::int64_t batches, bool along_rows) {
  const auto chunks = static_cast<int>(ceil_div(writer.pitch, Writer::kChunk));
  if (writer.rows == 0 || chunks == 0 || batches == 0) return {};
  const dim3 grid(static_cast<unsigned>(ceil_div(writer.rows, along_rows ? kLayRowsThreads : 8)),
                  static_cast<unsigned>(along_rows ? chunks : ceil_div(chunks, 32)),
                  static_cast<unsigned>(batches));
  lay_rows<<<grid, kLayRowsThreads, 0, native(stream)>>>(source, writer, writer.rows, chunks,
                                                         along_rows);
  return cuda_result(cudaGetLastError(), "conv2d");
}

}  // namespace planck::conv_device
