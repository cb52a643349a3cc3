// The CUDA kernels of a step, as host code sees them.
#pragma once

#include <span>

#include "planck/core/macros.h"
#include "planck/core/result.h"
#include "planck/core/stream.h"
#include "planck/optim/scale/loss_scale.math.h"
#include "planck/optim/step/norm.math.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

// One launch per few hundred tensors, whose table travels as the kernel's parameter. Nothing is
// stepped where `veto` is not 0 or `norm` not finite, numbers on the device or null.
PLANCK_CUDA_LIBRARY Result<void> step_cuda(const Stream&, std::span<const StepRow> rows,
                                           const std::int64_t* veto, const double* norm);

inline constexpr std::int64_t kSquareChunk = 8192;  // elements of one partial sum
// A f64 for each chunk of every tensor.
inline std::size_t squares_workspace(std::span<const SquareRow> rows) {
  std::int64_t chunks = 0;
  for (const SquareRow& row : rows) chunks += (row.count + kSquareChunk - 1) / kSquareChunk;
  return static_cast<std::size_t>(chunks) * sizeof(double);
}
PLANCK_CUDA_LIBRARY Result<void> squares_cuda(const Stream&, std::span<const SquareRow> rows,
                                              void* workspace, double* squares);
// The scale of a norm: a number, times one on the device where that is not null.
struct NormOver {
  double highest, scale;
  const double* scale_there;
};
// And norm and factor from them; of few elements two launches do it all.
PLANCK_CUDA_LIBRARY Result<void> clip_cuda(const Stream&, std::span<const SquareRow> rows,
                                           void* workspace, double* squares, const NormOver& over,
                                           double* out);
PLANCK_CUDA_LIBRARY Result<void> adapt_cuda(const Stream&, const LossScaleOptions& options,
                                            const double* norm, LossScaleState* state);
PLANCK_CUDA_LIBRARY Result<void> ratios_cuda(const Stream&, const double* a, const double* b,
                                             std::int64_t n, double* out);

// Sums of so many parts each, in one launch per few hundred tensors.
PLANCK_CUDA_LIBRARY Result<void> sums_cuda(const Stream&, std::span<const SumRow> rows, int parts);

// Rows of `bytes`, an even number; those out of [0, all) are left out.
PLANCK_CUDA_LIBRARY Result<void> put_rows_cuda(const Stream&, void* table, const std::int64_t* rows,
                                               const void* values, std::int64_t count,
                                               std::int64_t all, std::int64_t bytes);

}  // namespace planck::optim
