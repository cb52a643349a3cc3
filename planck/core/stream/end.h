// What is to be dropped as a CUDA stream ends: its handle may be another stream's later.
#pragma once

#include <atomic>

#include "planck/core/device.h"

namespace planck::stream_detail {

// Called with the handle, after its work is done; null where nobody knows anything of streams.
inline constinit std::atomic<void (*)(Device, void*) noexcept> ended{nullptr};

}  // namespace planck::stream_detail
