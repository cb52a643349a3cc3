// The 16-bit conversions of planck/core/half.h, run on a GPU and compared with the host's.
#pragma once

#include <string>

#include "planck/core/result.h"

namespace planck::conformance {

// Every 16-bit pattern both ways, and 2^24 f32 and f64 patterns down. "" where all agree; an error
// where no device is.
Result<std::string> conversions_that_differ_on_device();

}  // namespace planck::conformance
