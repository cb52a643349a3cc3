// The compiler's vector intrinsics and Highway's foundation, to be precompiled: half of the time to
// read hwy/highway.h, once for each of forty sources with vector loops.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <hwy/base.h>
