// Chooses tiles and readings for a product and launches it. The build makes one source for each
// element type (CMakeLists.txt).
#pragma once

#include "planck/loops/gemm/cuda/tile.cuh"
#include "planck/ops/matmul/cuda/deep.cuh"
#include "planck/ops/matmul/cuda/product.cuh"
#include "planck/ops/matmul/cuda/thin.cuh"

namespace planck::gemm_device {

// Chunks that a thread reads at once lie in one piece and at a multiple of their size.
template <class T>
Reading reading_of(const Operand<T>& x, std::int64_t count, std::int64_t k, const Batches& batches,
                   int operand) {
  constexpr std::int64_t kChunk =
      std::is_same_v<T, std::int8_t> ? 4 : 16 / sizeof(typename Stored<T>::Word);
  const auto whole = [&](std::int64_t v) { return v % kChunk == 0; };
  if (reinterpret_cast<std::uintptr_t>(x.data) % (kChunk * sizeof(T)) != 0) return Reading::strided;
  for (int d = 0; d < batches.rank; ++d)
    if (!whole(batches.stride[operand][d])) return Reading::strided;
  if (x.along == 1 && whole(count) && (whole(x.depth) || k == 1)) return Reading::along;
  if (x.depth == 1 && whole(k) && (whole(x.along) || count == 1)) return Reading::across;
  return Reading::strided;
}

template <class T, class Tile, Reading kA, Reading kB>
Result<void> launch_tiles(const Stream& stream, ProductArgs<T> p) {
  using Word = typename Stored<T>::Word;
  p.tiles_down = ceil_div(p.m, Tile::template kRows<Word>);
  p.tiles_across = ceil_div(p.n, Tile::template kColumns<Word>);
  return launch(stream, "matmul", multiply_tiles<T, Tile, kA, kB>,
                p.batches.count * p.tiles_down * p.tiles_across, Tile::kThreads, p);
}

template <class T>
ProductArgs<T> product_args(const Geometry& g) {
  using Output = typename Stored<T>::Output;
  constexpr std::int64_t kChunk = 16 / sizeof(typename Stored<T>::Word);
  ProductArgs<T> p{};
  p.a = {static_cast<const T*>(g.a.data), g.a.row, g.a.column, Reading::strided};
  p.b = {static_cast<const T*>(g.b.data), g.b.column, g.b.row, Reading::strided};
  p.a.reading = reading_of(p.a, g.m, g.k, g.batches, 0);
  p.b.reading = reading_of(p.b, g.n, g.k, g.batches, 1);
  p.m = g.m, p.n = g.n, p.k = g.k;
  p.c = static_cast<Output*>(g.c.data);
  p.c_row = g.c.row, p.c_column = g.c.column;
  p.c_packs = g.c.column == 1 && g.n % kChunk == 0 && (g.c.row % kChunk == 0 || g.m == 1) &&
              reinterpret_cast<std::uintptr_t>(p.c) % (kChunk * sizeof(Output)) == 0;
  for (int d = 0; d < g.batches.rank; ++d) p.c_packs &= g.batches.stride[2][d] % kChunk == 0;
  p.batches = g.batches;
  return p;
}

// Tiles of 128 × 128, 64 × 64, 16 × 32.
template <class T>
struct Tilings {
  using Large = Tiling<2, 2, 4, 2, 8, 2>;
  using Medium = Tiling<1, 1, 4, 2, 16, 3>;
  using Small = Tiling<1, 1, 1, 1, 32, 8>;
};
template <>
struct Tilings<float> : Tilings<void> {
  using Large = Tiling<4, 2, 2, 2, 16, 2>;
};
template <>
struct Tilings<double> : Tilings<void> {  // 64 × 128, 32 × 64, 8 × 16
  using Large = Tiling<4, 4, 2, 2, 8, 2>;
  using Medium = Tiling<2, 2, 2, 2, 16, 4>;
};

// Large tiles where they fill the device, else smaller ones.
template <class T>
Result<void> multiply(const Stream& stream, const Geometry& g) {
  using Large = typename Tilings<T>::Large;
  using Medium = typename Tilings<T>::Medium;
  using Small = typename Tilings<T>::Small;
  using Word = typename Stored<T>::Word;
  constexpr std::int64_t kEnough = 100;  // blocks
  const ProductArgs<T> p = product_args<T>(g);
  const auto blocks = [&](std::int64_t rows, std::int64_t columns) {
    return g.batches.count * ceil_div(g.m, rows) * ceil_div(g.n, columns);
  };
  if constexpr (!std::is_same_v<T, std::int8_t>)
    if (is_thin(p)) return launch_thin(stream, p);
  constexpr Reading kAny = Reading::any, kAlong = Reading::along, kAcross = Reading::across;
  if (g.m > 32 && blocks(Large::template kRows<Word>, Large::template kColumns<Word>) >= kEnough) {
    if constexpr (std::is_same_v<T, float>) {
      const Reading a = p.a.reading, b = p.b.reading;
      if (a == kAcross && b == kAlong) return launch_tiles<T, Large, kAcross, kAlong>(stream, p);
      if (a == kAlong && b == kAlong) return launch_tiles<T, Large, kAlong, kAlong>(stream, p);
      if (a == kAcross && b == kAcross) return launch_tiles<T, Large, kAcross, kAcross>(stream, p);
      if (a == kAlong && b == kAcross) return launch_tiles<T, Large, kAlong, kAcross>(stream, p);
    }
    return launch_tiles<T, Large, kAny, kAny>(stream, p);
  }
  if (g.m > 16 && blocks(Medium::template kRows<Word>, Medium::template kColumns<Word>) >= kEnough)
    return launch_tiles<T, Medium, kAny, kAny>(stream, p);
  if constexpr (std::is_floating_point_v<T>) {
    const bool any_strides = p.a.reading == Reading::strided || p.b.reading == Reading::strided;
    if (g.k >= Deep<float>::kDepth && (sizeof(T) == 4 || any_strides))
      return launch_deep(stream, p);
  }
  return launch_tiles<T, Small, kAny, kAny>(stream, p);
}

}  // namespace planck::gemm_device

#define PLANCK_INSTANTIATE(T)                                        \
  namespace planck::gemm_device {                                    \
  template Result<void> multiply<T>(const Stream&, const Geometry&); \
  }
