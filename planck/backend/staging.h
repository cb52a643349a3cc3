// Copies to a GPU that nobody waits for: bytes go into pinned memory of our own, from where the
// device takes them when their turn comes, and the caller's memory is free again at once.
#pragma once

#include <cstddef>

#include "planck/core/stream.h"

namespace planck::backend_detail {

// Queues the copy on a CUDA stream. Waits for the stream where the bytes are many (32 MiB) or where
// pinned memory of 128 MiB is still on its way.
void copy_from_host(const Stream& stream, void* to, const void* from, std::size_t bytes);

}  // namespace planck::backend_detail
