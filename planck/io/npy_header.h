// The header of an .npy file (NumPy's format for one array), and a parser that trusts nothing.
//
//   6 bytes       \x93NUMPY
//   2 bytes       version: 1.0, 2.0 or 3.0
//   2 or 4 bytes  N, the length of the header, little endian: two bytes in version 1
//   N bytes       {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, padded with spaces
//   the rest      the elements
//
// Promise: parse_npy_header is a pure function of the bytes. It accepts a file only where the data
// are exactly dtype × shape, to the last byte. Keys occur once and none is foreign. Anything else
// is one ErrorCode::io with the rule and both values. Read are f2, f4, f8, i1, u1, i4, i8 and b1,
// little endian, in rank 0 to 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planck/core/dtype.h"
#include "planck/core/result.h"
#include "planck/core/shape.h"

namespace planck {

inline constexpr std::uint64_t kMaxNpyHeader = 65536;  // NumPy itself trusts 10,000

struct NpyHeader {
  Dtype dtype = Dtype::f32;
  Shape shape;
  bool fortran_order = false;  // the first axis varies fastest
  std::uint64_t data_begin = 0;
};

[[nodiscard]] Result<NpyHeader> parse_npy_header(std::span<const std::byte> file);

// The bytes before the data, version 1.0, a multiple of 64 of them. bf16 and packed integers have
// no place in the format.
[[nodiscard]] Result<std::string> npy_header(Dtype dtype, const Shape& shape);

}  // namespace planck
