// Runs an op, its types erased, on data in host memory, whatever device the stream is on.
//
// Outputs, device copies and workspace live in buffers that are kept from call to call and grow to
// the largest need, so that a long walk over tensors of many sizes holds on to no more than its
// largest one.
#pragma once

#include <array>
#include <string_view>

#include "planck/core/allocator.h"
#include "planck/plan/registry.h"

namespace planck::cli {

// A block that grows and never shrinks. What it held is lost when it grows.
class GrowingBuffer {
 public:
  [[nodiscard]] Result<void*> reserve(const Stream& stream, std::size_t bytes);

 private:
  Buffer buffer_;
};

class OpRunner {
 public:
  explicit OpRunner(Stream stream) : stream_(std::move(stream)) {}

  struct Outcome {
    Operands operands;        // all on the host; outputs are valid until the next run
    std::string_view kernel;  // "cpu:simd"
  };
  // `inputs` are row-major host views at the positions of the op's input operands.
  [[nodiscard]] Result<Outcome> run(const AnyProblem& problem, const Operands& inputs);

  const Stream& stream() const { return stream_; }

 private:
  Stream stream_;
  std::array<GrowingBuffer, kMaxOperands> host_, device_;
  GrowingBuffer workspace_;
};

}  // namespace planck::cli
