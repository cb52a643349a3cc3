// What CUDA kernels are compiled for, as CMake names it ("80-virtual,90a-real"), and what a GPU
// runs of it.
#pragma once

#include <string_view>
#include <vector>

namespace planck::cuda {

std::vector<std::string_view> each_architecture(std::string_view architectures);

// The number of the code that a GPU gets; 0 where there is none for it. NN-real is code for GPUs of
// the same major number from NN on; NN-virtual is PTX, for all from NN on, and taken where there is
// no such code; NN alone is both. With the letter a it is for NN alone, with f for the same major
// number.
int code_for(std::string_view architectures, int compute_capability);

// Of this build, for a device that is there. What kernels have for __CUDA_ARCH__ >= NN alone is in
// them where this is NN or more, whatever the device itself could do.
int code_of(int ordinal);

}  // namespace planck::cuda
