// "5GB", "500MB", "2GiB", "1000000": a number of bytes, as people write it.
#pragma once

#include <cstdint>
#include <string>

#include "planck/core/result.h"

namespace planck::cli {

// K, M, G, T are powers of 1,000, Ki, Mi, Gi, Ti of 1,024; B may follow. At least 1, below 2^63.
// The number is read as those of requests are (plan/attributes.h).
[[nodiscard]] Result<std::uint64_t> parse_size(const std::string& text);

}  // namespace planck::cli
