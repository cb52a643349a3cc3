// What the stack of a pickle may hold. Values refer to one another by their place in one list, so
// that a pickle of n bytes makes at most n values, however often it names the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planck/io/checkpoint/encoding.h"

namespace planck::pickle {

enum class Kind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  sequence,    // a tuple or a list
  dictionary,  // keys and values in turn
  name,        // an allowed one: Global
  storage,
  tensor,
};

// What may be called, or be an argument.
enum class Global : std::uint8_t {
  ordered_dict,
  size,
  tensor,
  tensor_v2,
  tensor_v3,
  parameter,
  storage_type,
  element_type,
};

using Index = std::uint32_t;

struct Value {
  Kind kind = Kind::none;
  Global global = Global::ordered_dict;
  const TensorEncoding* type = nullptr;  // of a storage type, an element type, a storage, a tensor
  std::int64_t integer = 0;              // also: elements of a storage, offset of a tensor
  std::string_view text = {};            // of the pickle; also: key of a storage
  std::vector<Index> items = {};         // also: storage, shape and strides of a tensor
};

// The value of a name; none where it is not on the list.
std::optional<Value> find_allowed(std::string_view module, std::string_view name);

}  // namespace planck::pickle
