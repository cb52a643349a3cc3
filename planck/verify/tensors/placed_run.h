// One run of one plan: operands laid out between red zones, a workspace likewise, and what memory
// looks like after it.
#pragma once

#include <string>
#include <vector>

#include "planck/verify/case.h"
#include "planck/verify/tensors/guarded_tensor.h"

namespace planck::verify {

// What is being run: a case's problem with one kernel of its table.
struct Subject {
  const Case* test_case;
  const AnyProblem* problem;
  const AnyPlan* plan;
  std::vector<OperandSpec> specs;

  const OpInfo& info() const { return problem->info(); }
  std::size_t operands() const { return specs.size(); }
  Role role(std::size_t i) const { return info().operands[i].role; }
  // Whether operand i is part of the run.
  bool takes(std::size_t i, const NamedTensors& inputs) const;
  const Shape& shape(std::size_t i, const NamedTensors& inputs) const;
};

struct Arrangement {
  std::string what;                               // for messages: "transposed", "2 threads"
  std::vector<Layout> layouts;                    // one per operand; contiguous where it ends
  std::uint8_t sentinel = 0xa5;                   // fills outputs, gaps, red zones and workspace
  int left_out = -1;                              // an optional operand that is not passed
  int in_place_output = -1, in_place_input = -1;  // the output that is the same view as an input

  Layout layout(std::size_t operand) const {
    return operand < layouts.size() ? layouts[operand] : Layout::contiguous;
  }
};

// The wanted layout where the operand can have it, else contiguous.
Layout legal_layout(const Subject& subject, const NamedTensors& inputs, std::size_t operand,
                    Layout wanted);

struct Outcome {
  std::vector<HostTensor> outputs;  // one per operand; empty for inputs and operands left out
  std::string fault;  // an error, a stray write or a changed input; "" where all is well
};

class PlacedRun {
 public:
  static Result<PlacedRun> make(const Subject& subject, const Stream& stream,
                                const NamedTensors& inputs, const Arrangement& arrangement);
  const Operands& operands() const { return operands_; }
  Workspace workspace() const { return workspace_; }
  Result<void> run() const { return subject_->plan->run(stream_, workspace_, operands_); }
  Outcome finish();  // waits, fetches, checks memory

 private:
  explicit PlacedRun(const Stream& stream) : stream_(stream) {}
  std::string check_memory(Outcome& outcome);

  const Subject* subject_ = nullptr;
  Stream stream_;
  Arrangement arrangement_;
  std::vector<GuardedTensor> tensors_;  // one per operand
  std::vector<bool> placed_;
  Operands operands_{};
  GuardedBytes workspace_memory_;
  Workspace workspace_;
};

// Places, runs and finishes.
Outcome execute(const Subject& subject, const Stream& stream, const NamedTensors& inputs,
                const Arrangement& arrangement);

}  // namespace planck::verify
