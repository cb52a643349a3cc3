// The CUDA kernels of a step, as host code sees them.
#pragma once

#include <span>

#include "planck/core/macros.h"
#include "planck/core/result.h"
#include "planck/core/stream.h"
#include "planck/optim/step/norm.math.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

// One launch per few hundred tensors, whose table travels as the kernel's parameter. Nothing is
// stepped where `veto`, a number on the device or null, is not 0.
PLANCK_CUDA_LIBRARY Result<void> step_cuda(const Stream&, std::span<const StepRow> rows,
                                           const std::int64_t* veto);

inline constexpr std::int64_t kSquareChunk = 8192;  // elements of one partial sum
// A f64 for each chunk of every tensor.
inline std::size_t squares_workspace(std::span<const SquareRow> rows) {
  std::int64_t chunks = 0;
  for (const SquareRow& row : rows) chunks += (row.count + kSquareChunk - 1) / kSquareChunk;
  return static_cast<std::size_t>(chunks) * sizeof(double);
}
PLANCK_CUDA_LIBRARY Result<void> squares_cuda(const Stream&, std::span<const SquareRow> rows,
                                              void* workspace, double* squares);
PLANCK_CUDA_LIBRARY Result<void> norm_and_factor_cuda(const Stream&, const double* squares,
                                                      std::int64_t n, double highest, double scale,
                                                      double* out);
PLANCK_CUDA_LIBRARY Result<void> ratios_cuda(const Stream&, const double* a, const double* b,
                                             std::int64_t n, double* out);

// Sums of so many parts each, in one launch per few hundred tensors.
PLANCK_CUDA_LIBRARY Result<void> sums_cuda(const Stream&, std::span<const SumRow> rows, int parts);

// Rows of `bytes`, an even number; those out of [0, all) are left out.
PLANCK_CUDA_LIBRARY Result<void> put_rows_cuda(const Stream&, void* table, const std::int64_t* rows,
                                               const void* values, std::int64_t count,
                                               std::int64_t all, std::int64_t bytes);

}  // namespace planck::optim
