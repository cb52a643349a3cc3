// A small transformer's checkpoint out of a seed: 13 MiB, the same bytes on every machine.
//
// An embedding, three layers of attention, MLP and expert weights, norms, and integer position ids;
// f32 and bf16. Values are sums of four uniform numbers, nearly normal, so that no elementary
// function is needed. Rows and groups of columns differ in size and one value in 1024 is an
// outlier: what makes granularities differ in real models.
#pragma once

#include <cstdint>
#include <string>

#include "planck/core/result.h"
#include "planck/core/stream.h"

namespace planck::cli {

[[nodiscard]] Result<void> write_sample_checkpoint(const Stream& cpu, const std::string& path,
                                                   std::uint64_t seed);

}  // namespace planck::cli
