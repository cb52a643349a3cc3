// Instruction sets that CPU kernels are compiled for: AVX-512, AVX2 and the compiler's baseline.
// Include before hwy/foreach_target.h. Loops inside the per-target namespace are plain C++ that the
// compiler vectorizes for that target.
#pragma once

#if defined(PLANCK_SANITIZED)  // instrumented loops compile slowly: AVX2 alone, as the baseline
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
