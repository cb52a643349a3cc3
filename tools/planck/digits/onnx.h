// The model as ONNX files, for other runtimes.
#pragma once

#include <string>
#include <vector>

#include "tools/planck/digits/forms.h"

namespace planck::digits {

// STEM.onnx of integer operators and STEM.qdq.onnx, of a model of integers. Other forms have none,
// nor have models whose floats are not f32.
std::vector<std::string> onnx_files(const std::string& stem, const StoredNet& net);
[[nodiscard]] Result<void> write_onnx(const std::string& stem, const StoredNet& net);

}  // namespace planck::digits
