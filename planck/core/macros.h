// The few macros of the project: function qualifiers shared by host and device code.
#pragma once

#if defined(__CUDACC__)
#define PLANCK_HD __host__ __device__ __forceinline__
#else
#define PLANCK_HD [[gnu::always_inline]] inline
#endif

// Of a function that planck::cuda holds. A program may link with planck::cpu alone: there it is
// null, and nobody calls it, since cuda::built() is false.
#define PLANCK_CUDA_LIBRARY [[gnu::weak]]
