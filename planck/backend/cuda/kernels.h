// The kernel that looks for errors in data, as host code sees it.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"
#include "planck/core/result.h"
#include "planck/core/stream.h"
#include "planck/core/view.h"

namespace planck::backend_detail {

// The first error of a stream; all 0 where there was none.
struct Fault {
  std::int64_t id;     // which check found it; from 1
  std::int64_t count;  // how many indices are bad
  std::int64_t place;  // the first of them, row-major; -1 where they changed meanwhile
  std::int64_t value, least;
  double number;  // what is not finite
};

// One operand whose indices were counted.
struct IndexCheck {
  std::int64_t id;
  View indices;  // i32 or i64
  std::int64_t extent, ignored;
  bool ignores, ends;
};

// Where count[0] is not 0 and *fault nothing yet: writes it.
PLANCK_CUDA_LIBRARY Result<void> find_bad_index_cuda(const Stream&, const IndexCheck& check,
                                                     const std::int64_t* count, Fault* fault);

// Where one f32 or f64 is not finite and *fault nothing yet: writes it.
PLANCK_CUDA_LIBRARY Result<void> find_not_finite_cuda(const Stream&, std::int64_t id,
                                                      const View& number, Fault* fault);

}  // namespace planck::backend_detail
