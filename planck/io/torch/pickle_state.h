// The tensors of what a pickle has made: dictionaries taken apart, nested names joined by dots.
#pragma once

#include <span>

#include "planck/io/torch/pickle.h"
#include "planck/io/torch/pickle_values.h"

namespace planck::pickle {

// From the value `top` on. Takes time and memory linear in the values and in the pickle's bytes; a
// dictionary inside itself, or in two places, is refused.
[[nodiscard]] Result<PickledState> state_of(std::span<const Value> values, Index top,
                                            std::size_t pickle_bytes);

}  // namespace planck::pickle
