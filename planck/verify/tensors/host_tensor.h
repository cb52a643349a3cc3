// Dense row-major values on the host, with their dtype at run time: what cases are made of and
// results are compared as.
//
// s4 and u4 are packed as everywhere: flat index i lies in nibble i % 2 of byte i / 2.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "planck/core/view.h"

namespace planck::verify {

struct HostTensor {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  HostTensor(Dtype type, const Shape& extents)
      : dtype(type), shape(extents), bytes(bytes_for(type, numel(extents))) {}

  std::int64_t count() const { return numel(shape); }
  double number(std::int64_t i) const;  // the value, exactly for all dtypes but i64
  // Rounded to nearest even; integers must be in range.
  void set_number(std::int64_t i, double value);
  std::uint64_t pattern(std::int64_t i) const;  // the element's bits
  void set_pattern(std::int64_t i, std::uint64_t bits);
  View view() { return {bytes.data(), dtype, shape, row_major(shape), true}; }
};

using NamedTensors = std::map<std::string, HostTensor, std::less<>>;

// "" where both hold the same bits; else the first element that differs, with both patterns and the
// count.
std::string bit_difference(const HostTensor& expected, const HostTensor& actual);

// Elements at `index` of a strided buffer that starts at `base`, without an assumption on
// alignment.
std::uint64_t load_pattern(const std::byte* base, Dtype dtype, std::int64_t index);
void store_pattern(std::byte* base, Dtype dtype, std::int64_t index, std::uint64_t bits);

}  // namespace planck::verify
