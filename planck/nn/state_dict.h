// A flat map from names to host tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planck/core/dtype.h"
#include "planck/core/shape.h"

namespace planck::nn {

struct StateEntry {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<std::byte> bytes;  // row-major
  bool operator==(const StateEntry&) const = default;
};
using StateDict = std::map<std::string, StateEntry, std::less<>>;

// An entry with the dtype and shape expected, or an error that names all of them.
void check_entry(std::string_view name, const StateEntry& entry, Dtype dtype, const Shape& shape);
// The entry of a name with the dtype and shape expected; thrown errors name all of them.
const StateEntry& find_entry(const StateDict& state, std::string_view name, Dtype dtype,
                             const Shape& shape);

}  // namespace planck::nn
