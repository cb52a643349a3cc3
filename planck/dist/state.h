// State across workers: the same on all of them at the start, and found out where it no longer is.
#pragma once

#include <optional>

#include "planck/dist/transport/communicator.h"
#include "planck/nn/state.h"

namespace planck::dist {

// A state as bytes, and back. Bytes that are no state are refused.
std::vector<std::byte> pack(const nn::StateDict& state);
nn::StateDict unpack(std::span<const std::byte> bytes);

// The hash of each entry, under its name.
nn::StateDict hashes_of(const nn::StateDict& state);

// What `from` has, on every worker.
nn::StateDict broadcast(Communicator& workers, const nn::StateDict& state, int from = 0);
void broadcast_state(Communicator& workers, const nn::PartList& parts, int from = 0);
// Parameters, buffers and generators of worker `from`, on every worker.
template <class Module>
void broadcast_state(Communicator& workers, Module& module, int from = 0) {
  broadcast_state(workers, nn::parts_of(module), from);
}

// Where the workers' states differ, by their hashes: the first name in the order of names, and who
// differs from worker 0. None where all are equal. Every worker gets the same answer.
std::optional<std::string> difference(Communicator& workers, const nn::StateDict& state);
template <class Module>
std::optional<std::string> difference(Communicator& workers, Module& module) {
  return difference(workers, nn::state(module));
}

// Refuses a job whose workers were started with different things: what this one has, in words.
void check_same(Communicator& workers, const std::string& mine);

// Entries of all workers together; a name that several have is taken from the first of them.
nn::StateDict gather(Communicator& workers, const nn::StateDict& mine);

}  // namespace planck::dist
