// tensor_core by integer lanes. k in steps of 256: numbers are brought over as f32, their exponents
// beside them; tasks of 64 × 128 go through panels of 32 columns (16 on AVX2), whose sums lie on
// the stack.
#include "planck/loops/gemm/cpu/blocked.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/loops/gemm/cpu/tensor_core_tile.h"

namespace planck::gemm {

namespace {

constexpr Cut kCut = {1024, 1024, kMostDepth, 64, 128};

// Bytes of one product's parts of the workspace.
struct Layout {
  std::int64_t rows, columns, depth;
  Layout(std::int64_t m, std::int64_t n, std::int64_t k)
      : rows(kCut.rows(m)), columns(kCut.columns(n)), depth(kCut.depth(k)) {}
  std::int64_t a() const { return rows * depth; }
  std::int64_t b() const { return columns * depth; }
  std::int64_t sums(std::int64_t k) const { return k > kCut.step ? rows * columns : 0; }
  std::size_t bytes(std::int64_t k) const {
    return static_cast<std::size_t>(8 * a() + 6 * b() + 4 * sums(k));
  }
};

class Engine {
 public:
  Engine(Dtype format, const Product& p, std::byte* workspace)
      : p_(p),
        format_(format),
        layout_(p.m, p.n, p.k),
        a_(reinterpret_cast<float*>(workspace)),
        b_(a_ + layout_.a()),
        waiting_(b_ + layout_.b()),
        a_exponent_(reinterpret_cast<std::int32_t*>(waiting_ + layout_.sums(p.k))),
        b_exponent_(reinterpret_cast<std::int16_t*>(a_exponent_ + layout_.a())) {}

  void pack_a(const Step& s, std::int64_t i, std::int64_t rows) const {
    float* const to = a_ + i * s.k;
    pack(part_of(p_.a, s.i0 + i, s.k0), rows, s.k, 1, to);
    ops_.prepare_a(format_, to, rows * s.k, a_exponent_ + i * s.k);
  }
  void pack_b(const Step& s, std::int64_t j, std::int64_t columns) const {
    float* const to = b_ + j * s.k;
    pack(part_of(p_.b, s.j0 + j, s.k0), columns, s.k, ops_.columns, to);
    ops_.prepare_b(format_, to, round_up(columns, ops_.columns) * s.k, b_exponent_ + j * s.k);
  }
  void multiply(const Step& s, std::int64_t i, std::int64_t j, std::int64_t rows,
                std::int64_t columns) const {
    alignas(64) float sums[kCut.task_rows * kMostTensorCoreColumns];
    const int width = ops_.columns;
    for (std::int64_t at = j; at < j + columns; at += width) {
      const int n = static_cast<int>(std::min<std::int64_t>(width, j + columns - at));
      float* const waiting = waiting_ + i * layout_.columns + at;
      for (std::int64_t r = 0; r < rows && !s.first; ++r)
        std::copy_n(waiting + r * layout_.columns, width, sums + r * width);
      ops_.multiply({format_, a_ + i * s.k, a_exponent_ + i * s.k, rows, b_ + at * s.k,
                     b_exponent_ + at * s.k, s.k, sums, !s.first, s.last});
      for (std::int64_t r = 0; r < rows; ++r)
        if (s.last)
          p_.store(s.i0 + i + r, s.j0 + at, n, sums + r * width);
        else
          std::copy_n(sums + r * width, width, waiting + r * layout_.columns);
    }
  }

 private:
  const Product& p_;
  Dtype format_;
  const TensorCoreOps& ops_ = tensor_core_ops();
  Layout layout_;
  float *a_, *b_, *waiting_;
  std::int32_t* a_exponent_;
  std::int16_t* b_exponent_;
};

}  // namespace

std::size_t tensor_core_bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(Layout(m, n, k).bytes(k)), 64));
}

void multiply_tensor_core(const Stream& stream, Dtype format, const Product& p,
                          std::byte* workspace) {
  run_blocked(stream, kCut, p.m, p.n, p.k, Engine(format, p, workspace));
}

Product product_of(const Geometry& g, std::int64_t t) {
  Product p{g.m, g.n, g.k, rows_of_a(g, t), columns_of_b(g, t), g.c, g.batches.offset(2, t)};
  p.epilogue = g.epilogue;
  p.residual_at = g.batches.offset(3, t);
  return p;
}

}  // namespace planck::gemm
