// Bags on the device: where each starts, whatever the offsets are, and which one an entry is in.
#pragma once

#include "planck/core/workspace.h"
#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/table/cuda/keys.cuh"
#include "planck/loops/table/cuda/layout.h"
#include "planck/ops/embedding/embedding.problem.h"

namespace planck::table_device {

struct Bags {
  Integers offsets;
  Keys keys;                                    // of the rows that entries name
  std::int64_t count = 0, bags = 0, given = 0;  // N, B, offsets
  std::uint32_t* starts = nullptr;              // [B + 1]
  std::uint32_t* maxima = nullptr;              // per tile of offsets
  std::uint32_t* bag_of = nullptr;              // by entry; null: not wanted
  std::uint32_t* counts = nullptr;              // valid entries by bag; null: not wanted
  unsigned long long* bad_indices = nullptr;    // set here only where no index is built
  unsigned long long* bad_offsets = nullptr;
};

Bags bags_of(const EmbeddingProblem&, const BagLayout&, Workspace, const View& indices,
             const View& offsets, const View& bad_offsets);
// Starts a chain.
Result<void> find_bags(const Stream&, const Bags&, const BagLayout&);

// out[b] = the largest row of a bag.
Result<void> launch_largest(const Stream&, const EmbeddingProblem&, const Bags&, const View& weight,
                            const View& out, const View& argmax);
// dweights[n] = Σ dout[bag of n] * weight[indices[n]].
Result<void> launch_weights_gradient(const Stream&, const EmbeddingProblem&, const Bags&,
                                     const View& dout, const View& weight, const View& dweights);

}  // namespace planck::table_device
