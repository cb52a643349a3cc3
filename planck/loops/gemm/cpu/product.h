// One product of matrices whose operands are prepared first, as the engines of tensor_core and
// exact take it: A and B by strides or by themselves (Lines), C by strides or by a Sink.
#pragma once

#include "planck/core/stream.h"
#include "planck/loops/gemm/cpu/epilogue.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/geometry.h"

namespace planck::gemm {

// Where sums go that no strides describe: n of them, of one row, from `column` on.
struct Sink {
  virtual void store(std::int64_t row, std::int64_t column, int n, const float* sums) const = 0;

 protected:
  ~Sink() = default;
};

struct Product {
  std::int64_t m, n, k;
  Side a, b;  // seen along rows of A, columns of B
  Matrix c;   // C's first element is c_at elements on
  std::int64_t c_at;
  const Sink* sink = nullptr;  // instead of c
  // exact: of rows and of columns, none of which holds NaN or infinities; null: found here.
  const std::int32_t *row_exponents = nullptr, *column_exponents = nullptr;
  Epilogue epilogue = {};        // of c
  std::int64_t residual_at = 0;  // its first element

  void store(std::int64_t row, std::int64_t column, int count, const float* sums) const {
    if (sink != nullptr) return sink->store(row, column, count, sums);
    const std::int64_t at = c_at + row * c.row + column * c.column;
    store_sums(c.dtype, c.data, at, c.column, count, sums, epilogue.bias,
               row * epilogue.bias.row + column * epilogue.bias.column);
    follow_bias(epilogue, c.dtype, c.data, at, c.column, count,
                residual_at + row * epilogue.residual.row + column * epilogue.residual.column);
  }
};
// Batch t.
Product product_of(const Geometry& g, std::int64_t t);

// ProductMath::tensor_core, by integer lanes. `format` is bf16, f16, or f32 for TF32: what the
// elements are, whatever they are stored as.
std::size_t tensor_core_bytes(std::int64_t m, std::int64_t n, std::int64_t k);
void multiply_tensor_core(const Stream& stream, Dtype format, const Product& p,
                          std::byte* workspace);

// ProductMath::exact; the same bits by all of them.
enum class ExactBy : std::uint8_t { amx, vnni, f64 };
std::string exact_refusal(ExactBy by);  // empty where this CPU can
int exact_columns(ExactBy by);          // of a panel
std::size_t exact_bytes(ExactBy by, std::int64_t m, std::int64_t n, std::int64_t k);
void multiply_exact(ExactBy by, const Stream& stream, const Product& p, std::byte* workspace);

}  // namespace planck::gemm
