// What CUDA kernels are compiled for, as CMake names it ("80-virtual,90a-real"), and what a GPU can
// run of it.
#pragma once

#include <string_view>
#include <vector>

namespace planck::cuda {

std::vector<std::string_view> each_architecture(std::string_view architectures);

// NN-real is code for GPUs of the same major number from NN on; NN-virtual is PTX, for all from NN
// on; NN alone is both. With the letter a it is for NN alone, with f for the same major number.
bool has_code_for(std::string_view architectures, int compute_capability);

}  // namespace planck::cuda
