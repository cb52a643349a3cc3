// Rows of a tensor on the device: where each begins, elements as keys, results stored.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/nest.cuh"
#include "planck/ops/sort/sort.math.h"
#include "planck/ops/sort/sort.problem.h"

namespace planck::sort_device {

// Operands x, values, indices; without the axis.
struct DeviceRows {
  DeviceNest<3> nest;
  const void* x;
  void* values;  // null: not wanted
  std::int64_t* indices;
  std::int64_t step[3];
  std::int64_t length, kept;
  int bytes;  // of an element
  sort_math::Order order;
  bool descending;

  static DeviceRows of(const SortProblem& p, const Operands& o) {
    DeviceRows r = {};
    const View& values = o[static_cast<std::size_t>(p.values() < 0 ? 0 : p.values())];
    const View& indices = o[p.indices()];
    Shape shape = p.x;
    shape[p.axis] = 1;
    Nest nest = nest_over(shape, {o[0].strides, values.strides, indices.strides});
    collapse(nest);
    r.nest = DeviceNest<3>::of(nest);
    r.x = o[0].data;
    r.values = p.values() < 0 ? nullptr : values.data;
    r.indices = static_cast<std::int64_t*>(indices.data);
    r.step[0] = o[0].strides[p.axis];
    r.step[1] = values.strides[p.axis];
    r.step[2] = indices.strides[p.axis];
    r.length = p.length();
    r.kept = p.kept();
    r.bytes = static_cast<int>(storage_bytes(p.element_dtype));
    r.order = sort_math::order_of(p.element_dtype);
    r.descending = p.descending;
    return r;
  }

  // U: 64 bits for elements of 8 bytes, else 32.
  template <class U>
  __device__ __forceinline__ U key(std::int64_t offset) const {
    if constexpr (sizeof(U) == 8) {
      return sort_math::key_of<U, 64>(static_cast<const U*>(x)[offset], order, descending);
    } else {
      if (bytes == 4)
        return sort_math::key_of<U, 32>(static_cast<const std::uint32_t*>(x)[offset], order,
                                        descending);
      return sort_math::key_of<U, 16>(static_cast<const std::uint16_t*>(x)[offset], order,
                                      descending);
    }
  }

  // Element `position` of the row is number `rank`. at: offsets of the row.
  __device__ __forceinline__ void store(const std::int64_t (&at)[3], std::int64_t rank,
                                        std::int64_t position) const {
    indices[at[2] + rank * step[2]] = position;
    if (values == nullptr) return;
    const std::int64_t from = at[0] + position * step[0], to = at[1] + rank * step[1];
    if (bytes == 8)
      static_cast<std::uint64_t*>(values)[to] = static_cast<const std::uint64_t*>(x)[from];
    else if (bytes == 4)
      static_cast<std::uint32_t*>(values)[to] = static_cast<const std::uint32_t*>(x)[from];
    else
      static_cast<std::uint16_t*>(values)[to] = static_cast<const std::uint16_t*>(x)[from];
  }
};

}  // namespace planck::sort_device
