// The groups of checks the runner makes of one kernel on one case. Internal to planck/verify.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planck/verify/runner.h"

namespace planck::verify {

// A kernel under test, and where its findings go.
struct KernelCheck {
  const Subject& subject;
  const NamedTensors& inputs;
  std::span<const Stream> streams;  // of the plan's device
  const Options& options;
  Report& report;
  std::function<void(std::string what)> on_failure;

  // Counts one check; records `fault` with what was checked where it is not empty.
  bool expect_none(std::string_view check, const std::string& fault) const;
  bool promises_bits() const { return subject.plan->precision_guarantee().deterministic(); }
  bool repeats() const;    // whether a second run on the same memory gives what the first gave
  bool any_empty() const;  // whether an operand of the run has no elements
};

// "" where the outputs of both have the same bits, `skip` left aside.
std::string outputs_difference(const Subject& subject, const Outcome& expected,
                               const Outcome& actual, int skip = -1);

// Thread counts, repeats, layouts, in-place and optional operands. `golden` is the contiguous run
// on the first stream.
void check_bits(const KernelCheck& check, const Outcome& golden);
void check_broadcasts(const KernelCheck& check);
void check_errors(const KernelCheck& check);
void check_concurrent_use(const KernelCheck& check, const Outcome& golden);
void check_allocations(const KernelCheck& check);
void check_graph_replay(const KernelCheck& check, const Outcome& golden);
// Some rows alone, where the kernel promises batch invariance.
void check_batch(const KernelCheck& check, std::span<const OpEntry> ops, const Outcome& golden);

}  // namespace planck::verify
