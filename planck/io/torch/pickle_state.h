// The tensors of what a pickle has made: dictionaries and lists taken apart, nested names joined by
// dots; those of a list are numbers.
#pragma once

#include "planck/io/torch/pickle.h"
#include "planck/io/torch/pickle_values.h"

namespace planck::pickle {

// From the value `top` on. Takes time and memory linear in the pickle's bytes, though what is in
// two places is named twice; a dictionary inside itself is refused.
[[nodiscard]] Result<PickledState> state_of(const Values& values, Index top,
                                            std::size_t pickle_bytes);

}  // namespace planck::pickle
