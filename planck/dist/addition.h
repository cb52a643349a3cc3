// Sums of arrays, as the library's add computes them: each element rounded once, NaN canonical. The
// same bits on host and device.
#pragma once

#include <cstdint>
#include <span>

#include "planck/core/dtype.h"
#include "planck/core/stream.h"
#include "planck/dist/grains.h"

namespace planck::dist {

// sum[i] = left[i] + right[i]; sum may be left or right. f32, f64; i32 wraps.
using Addition = void (*)(const Stream& stream, Dtype dtype, const void* left, const void* right,
                          void* sum, std::int64_t count);
void add_on_host(const Stream& stream, Dtype dtype, const void* left, const void* right, void* sum,
                 std::int64_t count);
// By the plan of add, wherever the stream is.
void add_by_plan(const Stream& stream, Dtype dtype, const void* left, const void* right, void* sum,
                 std::int64_t count);

// One sum of several arrays, in the order that `joining` says. `sum` overlaps none of them.
void join(Addition add, const Stream& stream, const Joining& joining,
          std::span<const void* const> values, void* sum, std::int64_t count, Dtype dtype);

}  // namespace planck::dist
