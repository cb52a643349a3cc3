// The command line that reruns a failing case: its inputs as a safetensors file, and
// `planck run …`.
#pragma once

#include "planck/verify/case.h"

namespace planck::verify {

// Writes the inputs under `folder` ("": the system's temporary folder); if that fails, the line
// says so.
std::string replay_line(const Case& c, const NamedTensors& inputs, Device device,
                        std::string_view kernel, const std::string& folder);

[[nodiscard]] Result<void> write_tensors(const std::string& path, const NamedTensors& tensors);

}  // namespace planck::verify
