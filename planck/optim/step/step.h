// Steps of many tensors at once, and norms of many: one pass over memory on the CPU, one launch per
// few hundred tensors on CUDA. No op of the registry: those have ten operands at most, a step has
// as many tensors as the model.
//
// Work is cut by shapes alone: results depend on neither threads nor devices. Σ x² of a tensor is
// the canonical sum in the compute type (in f64 where that overflows or nearly vanishes), and
// squares of several tensors are added in f64 in their order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/optim/scale/loss_scale.math.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

// Steps that are ready: on the CPU run() needs no memory. All rows lie on the stream's device.
// Where `norm`, a number there, is not finite, nothing is stepped.
class Steps {
 public:
  Steps(const Stream& stream, std::vector<StepRow> rows, const double* norm = nullptr);
  void run() const;

 private:
  Stream stream_;
  std::vector<StepRow> rows_;
  const double* norm_;
  std::vector<std::int64_t> first_;  // task of each row, on the CPU
};
void run_steps(const Stream& stream, std::vector<StepRow> rows);

// Σ x² of tensors of any strides, with the memory that takes; run() computes them.
class Squares {
 public:
  Squares(const Stream& stream, std::span<const StoredView> tensors);
  // Where squares[i] of the i-th tensor lie, as f64 on the tensors' device.
  const StoredView& run();
  // [2], f64 on the device: the norm of all tensors together over `scale`; and what times the
  // elements has the norm `highest` at most: 1 / scale, less where the norm exceeds it.
  // Over `scale_there`, too, a number on a GPU; null: 1.
  StoredView norm_and_factor(double highest, double scale, const double* scale_there = nullptr);

 private:
  void run_on_cpu();

  Stream stream_;
  std::vector<StoredView> dense_;
  StoredView out_;
  // On the CPU: partial sums, and where those of each tensor begin.
  std::vector<std::int64_t> first_;
  std::vector<double> wide_;
  std::vector<float> narrow_;
  // On CUDA.
  std::vector<SquareRow> rows_;
  Shared<Storage> workspace_;
};
StoredView squares_of(const Stream& stream, std::span<const StoredView> tensors);

// A loss scale on a GPU, after a step with gradients of this norm.
void adapt_there(const Stream& stream, const LossScaleOptions& options, const double* norm,
                 LossScaleState* state);
// out[i] = ‖a[i]‖ / ‖b[i]‖; 1 where either is 0. All f64 [n].
void ratios_of(const StoredView& squares_a, const StoredView& squares_b, const StoredView& out);

// What is added up to one tensor: as many parts as all others have, of one dtype and shape; one
// that is missing counts as +0, and one at least is there.
struct Summands {
  std::vector<std::optional<StoredView>> parts;
  Dtype to;  // of the sum
};
// Canonical sums over the parts, in f64 where parts or sum are f64, else in f32; rounded once.
std::vector<StoredView> sums_of(const Stream& stream, std::span<const Summands> all);

// table[rows[k], :] = values[k, :], in place; rows are distinct i64, all dense.
void put_rows(const StoredView& table, const StoredView& rows, const StoredView& values);

// The same elements, row-major, in memory of their own.
StoredView copied(const StoredView& t);
// A tensor that its holder alone sees, row-major: itself, or a copy in its place.
void make_own(StoredView& t);

}  // namespace planck::optim
