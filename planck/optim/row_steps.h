// Steps of single rows of a table, where the table lies.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim::detail {

// The rows by themselves, with what is kept of them. Their step changes copies, put() the table; of
// f32 and f64 tables, sgd and adagrad have the bits of the whole step.
class RowCopies {
 public:
  RowCopies(const StepItem& item, const double* factor);
  const StepRow& step() const { return step_; }
  const StoredView& gradient() const { return g_; }
  std::span<const StoredView> copies() const { return copies_; }  // the weight's first
  // Takes no memory.
  void put() const;

 private:
  StoredView rows_, g_;
  std::vector<StoredView> tables_, copies_;
  StepRow step_;
};

}  // namespace planck::optim::detail
