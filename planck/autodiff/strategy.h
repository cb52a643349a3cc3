// What is kept for the backward pass. A strategy never changes a bit of any result.
//
//   struct RecomputeLarge {
//     static bool recomputes(const OpResult& r) { return r.memory_bound && r.bytes > 1 << 20; }
//   };
//   using A = Autodiff<Cpu, RecomputeLarge>;
//
// A strategy is asked about every result of an op that gives one tensor of floats from tracked
// ones. Where it says yes, whoever needs the result for a gradient keeps the op and its inputs
// instead, and computes it again when a pullback asks for it, at most once in a backward pass.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

namespace planck {

// What a strategy knows of a result.
struct OpResult {
  std::string_view op;  // "exp"
  bool memory_bound;    // computing it again costs no more than reading it: elementwise ops, views
  std::size_t bytes;    // of its elements
};

// Decides at run time, and may depend on what it likes; asked on the thread that runs the op.
template <class C>
concept CheckpointStrategy = requires(const OpResult& result) {
  { C::recomputes(result) } -> std::same_as<bool>;
};

namespace autodiff_detail {
using Recomputes = bool (*)(const OpResult&);  // null: never
}

// Everything that a pullback asks for.
struct NoCheckpointing {
  static constexpr bool recomputes(const OpResult&) { return false; }
};

// Results of compute-bound ops and leaves. Results of memory-bound ops (elementwise, views) are
// computed again.
struct BalancedCheckpointing {
  static constexpr bool recomputes(const OpResult& result) { return result.memory_bound; }
};

}  // namespace planck
