// The few macros of the project: function qualifiers shared by host and device code.
#pragma once

#if defined(__CUDACC__)
#define PLANCK_HD __host__ __device__ __forceinline__
#else
#define PLANCK_HD [[gnu::always_inline]] inline
#endif

// Marks a function that planck::cuda defines. In a program that links with planck::cpu alone it is
// null, and nobody calls it, since cuda::built() is false.
#define PLANCK_CUDA_LIBRARY [[gnu::weak]]
