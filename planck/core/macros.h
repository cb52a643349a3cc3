// The few macros of the project: function qualifiers shared by host and device code.
#pragma once

#if defined(__CUDACC__)
#define PLANCK_HD __host__ __device__ __forceinline__
#else
#define PLANCK_HD [[gnu::always_inline]] inline
#endif
