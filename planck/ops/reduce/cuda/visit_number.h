// From the dtype of a number, float or integer, to its C++ type.
#pragma once

#include "planck/core/dtype.h"

namespace planck {

// Calls f(std::type_identity<T>{}).
template <class F>
auto visit_number(Dtype t, F&& f) {
  switch (t) {
    case Dtype::i32:
      return f(std::type_identity<std::int32_t>{});
    case Dtype::i64:
      return f(std::type_identity<std::int64_t>{});
    default:
      return visit_float(t, f);
  }
}

}  // namespace planck
