// What is cut into planes of bytes for exact products.
#pragma once

#include "planck/loops/gemm/cuda/lay_along_k.cuh"

namespace planck::matmul_device {

// A matrix, a matrix of bytes for each plane, and what else is found out about its rows.
struct RowsToCut {
  gemm_device::Lying<float> x;
  std::int8_t* to;  // [batch][plane][row][depth]
  int* exponents;
  std::uint32_t* largest;  // room for each row's magnitude, where rows do not lie along k
  float* squares;          // for each kLayRows rows of a batch no less than the largest row's
  __host__ __device__ std::int64_t count() const { return x.rows * x.batches; }
  __host__ __device__ std::int64_t groups() const {
    return (x.rows + gemm_device::kLayRows - 1) / gemm_device::kLayRows;
  }
};

}  // namespace planck::matmul_device
