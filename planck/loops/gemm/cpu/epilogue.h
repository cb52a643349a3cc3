// What follows a product's bias on the CPU: planck/math/activation.h on parts of rows, by vectors.
#pragma once

#include "planck/core/dtype.h"
#include "planck/loops/gemm/epilogue.h"

namespace planck::gemm {

// n <= 1024 elements of a row of C, in place: they hold what the product and its bias were rounded
// to. residual_at: where that of the first lies. C is of floats.
void follow_bias(const Epilogue& epilogue, Dtype dtype, void* c, std::int64_t offset,
                 std::int64_t stride, int n, std::int64_t residual_at);

}  // namespace planck::gemm
