// Holds every kernel of an op's table to what it promises, for one case at a time. Depends on no
// test framework.
//
// For every kernel that accepts the case on the device under test:
//   bits      the same on repeats and for every thread count; for every memory layout the same as
//             for contiguous operands; in place the same as out of place; the same as the first
//             CPU kernel's where both promise cross_device; of some rows alone the same as among
//             all of them where batch invariance is promised
//   memory    nothing outside outputs and workspace is written, inputs stay as they are, every
//             output element is written (it does not depend on what was there before)
//   errors    a wrong operand, workspace or stream gives the stated code and a message that names
//             op and operand, and writes nothing
//   sharing   one plan used from several threads at once gives the same bits; run() allocates
//             nothing; a CUDA graph of the run replays to the same bits
// Values are the business of values.h.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "planck/verify/case.h"
#include "planck/verify/report.h"
#include "planck/verify/tensors/placed_run.h"

namespace planck::verify {

struct Options {
  Device device = Device::cpu();  // the one under test
  std::vector<int> threads = {1, 2, 5};
  // Allocations of the calling thread so far; null where nobody counts.
  std::size_t (*allocations)() = nullptr;
  // Where failing inputs are written; "" for the system's temporary folder.
  std::string failure_folder;
};

class Runner {
 public:
  // Fails where the device is absent.
  static Result<Runner> make(std::span<const OpEntry> ops, Options options);

  void run(const Case& c);
  const Report& report() const { return report_; }

 private:
  Runner(std::span<const OpEntry> ops, Options options) : ops_(ops), options_(std::move(options)) {}

  std::span<const OpEntry> ops_;
  Options options_;
  std::vector<Stream> streams_;  // of the device under test: one per thread count; on CUDA two
  Report report_;
  std::size_t files_written_ = 0;
};

}  // namespace planck::verify
