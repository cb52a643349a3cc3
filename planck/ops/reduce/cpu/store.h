// Results of consecutive groups to their places.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/loops/nest.h"

namespace planck {

template <class C>
struct ResultStore {
  void* base;
  Dtype dtype;
  Walk walk;

  void operator()(std::int64_t group, int n, const C* values) const {
    const C* from = values;
    walk.runs(group, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      const int count = static_cast<int>(length);
      if constexpr (std::is_floating_point_v<C>)
        store_portion(portion_ops(), dtype, base, offset, stride, count, from);
      else
        for (int i = 0; i < count; ++i) static_cast<C*>(base)[offset + i * stride] = from[i];
      from += length;
    });
  }
};

}  // namespace planck
