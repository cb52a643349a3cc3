// Errors as values. Nothing below the backends throws or aborts for what a caller can cause.
//
// A message names the op, the operand, the rule and both values:
//   quantize_per_channel: scale has 7 elements, shape[axis=1] is 8
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace planck {

enum class ErrorCode : std::uint8_t {
  unsupported,          // no kernel does this here; the message lists why not
  invalid_problem,      // the descriptor or the operands contradict the op's rules
  misaligned_operand,   // a pointer or a stride that no kernel of the plan can address
  workspace_too_small,  // less workspace than workspace_size() states
  buffer_too_small,     // a buffer that does not hold what its shape says
  out_of_memory,
  device,  // a device that is absent or answered with an error
  io,      // a file that cannot be read, written or trusted
  // Of automatic differentiation.
  untracked,           // backward from a tensor that no tracked tensor leads to
  graph_released,      // a second backward over a graph whose saved values are gone
  graph_busy,          // another thread is differentiating the same graph
  not_differentiable,  // the gradient of an op that has none
  not_a_number,        // the first NaN, where one is looked for (backend/anomaly.h)
};

constexpr std::string_view name(ErrorCode code) {
  constexpr std::string_view kNames[] = {"unsupported",
                                         "invalid_problem",
                                         "misaligned_operand",
                                         "workspace_too_small",
                                         "buffer_too_small",
                                         "out_of_memory",
                                         "device",
                                         "io",
                                         "untracked",
                                         "graph_released",
                                         "graph_busy",
                                         "not_differentiable",
                                         "not_a_number"};
  return kNames[static_cast<int>(code)];
}

struct Error {
  ErrorCode code;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace planck
