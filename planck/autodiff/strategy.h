// What is kept for the backward pass. A strategy never changes a bit of any result.
#pragma once

namespace planck {

// Everything that a pullback asks for.
struct NoCheckpointing {
  static constexpr bool recomputes = false;
};

// Results of compute-bound ops and leaves. Results of memory-bound ops (elementwise, views) are
// computed again when a pullback needs them, each at most once a backward pass.
struct BalancedCheckpointing {
  static constexpr bool recomputes = true;
};

}  // namespace planck
