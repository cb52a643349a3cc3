// Checkpoints of several workers: whole, or in parts, and read back by any number of them.
//
// Whole: the first worker writes one file (nn::save_state). In parts: each worker writes what it
// has into a file of its own beside it, NAME.RANK-of-WORKERS.HASH.part, and when all are there the
// first one writes NAME, which lists them with their hashes. NAME appears in one step, complete;
// until then the last checkpoint stands. Parts that no list names any more, and what workers that
// were killed left of theirs, are removed then.
#pragma once

#include "planck/dist/state.h"

namespace planck::dist {

// Called by all workers. Names that several workers have must have equal entries: all refuse it
// where they have not, before anything is written. A worker that cannot write throws; the others
// must be told (or_abort), for they wait for it.
void save_in_parts(Communicator& workers, const std::string& path, const nn::StateDict& mine,
                   const SafetensorsMetadata& metadata = {});

// What save_in_parts or nn::save_state wrote under this name, all of it. Parts that are missing,
// damaged or of another checkpoint are refused.
Result<nn::SavedState> read_checkpoint(const std::string& path);

}  // namespace planck::dist
