// States in files: safetensors with a checksum over all that they say.
#pragma once

#include <string>

#include "planck/core/result.h"
#include "planck/io/safetensors_header.h"
#include "planck/nn/state_dict.h"

namespace planck::nn {

// SHA-256 over names, dtypes, shapes and bytes, in the order of names.
std::string sha256_of(const StateDict& state);
// How many bytes the tensors of a state have.
std::uint64_t bytes_of(const StateDict& state);

// One safetensors file; it appears when it is complete. Errors name the path.
[[nodiscard]] Result<void> save_state(const std::string& path, const StateDict& state,
                                      const SafetensorsMetadata& metadata = {});
struct SavedState {
  StateDict state;
  SafetensorsMetadata metadata;

  SavedState();
  SavedState(const SavedState&);
  SavedState(SavedState&&) noexcept;
  SavedState& operator=(SavedState) noexcept;
  ~SavedState();
};
// What save_state wrote; a file that differs from it by as little as a bit is refused, and so are
// hostile files. One that never had a checksum is read without.
[[nodiscard]] Result<SavedState> read_state(const std::string& path);
// Metadata of a file without the checksum: for who writes other tensors under them.
SafetensorsMetadata without_checksum(SafetensorsMetadata metadata);

}  // namespace planck::nn
