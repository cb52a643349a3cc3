// Steps of many tensors at once, and norms of many: one pass over memory on the CPU, one launch per
// few hundred tensors on CUDA. No op of the registry: those have ten operands at most, a step has
// as many tensors as the model.
//
// Work is cut by shapes alone: results depend on neither threads nor devices. Σ x² of a tensor is
// the canonical sum in the compute type (in f64 where that overflows or nearly vanishes), and
// squares of several tensors are added in f64 in their order.
#pragma once

#include <span>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

// All rows lie on the stream's device.
void run_steps(const Stream& stream, std::span<const StepRow> rows);

// Where squares[i] = Σ x² of the i-th tensor lie, as f64 on the tensors' device. Any strides.
StoredView squares_of(const Stream& stream, std::span<const StoredView> tensors);

// [2], f64 on the device: the norm of all tensors together over `scale`; and what times the
// elements has the norm `highest` at most: 1 / scale, less where the norm exceeds it.
StoredView norm_and_factor(const StoredView& squares, double highest, double scale);
// [n]: ‖a[i]‖ / ‖b[i]‖; 1 where either is 0.
StoredView ratios_of(const StoredView& squares_a, const StoredView& squares_b);

// table[rows[k], :] = values[k, :], in place; rows are distinct i64, all dense.
void put_rows(const StoredView& table, const StoredView& rows, const StoredView& values);

// A tensor that its holder alone sees, row-major: itself, or a copy in its place.
void make_own(StoredView& t);

}  // namespace planck::optim
