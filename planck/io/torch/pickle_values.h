// What the stack of a pickle may hold. Values refer to one another by their place in one list, so
// that a pickle of n bytes makes at most n values, however often it names the same one; a value
// takes 16 bytes, and 4 for each of its items.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
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
  tuple,
  list,
  dictionary,  // keys and values in turn
  name,        // an allowed one: Global
  storage,     // items: its key, its elements
  tensor,      // items: storage, offset, shape, strides
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
  std::uint8_t type = 0;      // a place in all_encodings(), of storages, tensors and their types
  std::uint32_t count = 0;    // items; bytes of a text
  Index first = 0, last = 0;  // where they are; of an integer, its halves
};

class Values {
 public:
  // Of values that cannot be told apart there is one each; integers up to 255 follow.
  static constexpr Index kNone = 0, kFalse = 1, kTrue = 2, kReal = 3, kEmptyTuple = 4, kZero = 5;

  explicit Values(std::span<const std::byte> pickle);

  std::size_t size() const { return values_.size(); }
  const Value& operator[](Index at) const { return values_[at]; }
  std::int64_t integer(Index at) const;
  std::string_view text(Index at) const;  // of the pickle
  const TensorEncoding* type(Index at) const;
  // The items of a tuple, a storage or a tensor; `i` is below its count.
  Index item(Index at, std::size_t i) const { return items_[values_[at].first + i]; }
  // Every item of any value that has some, in order, as long as each(item) is true.
  template <class Each>
  void for_items(Index at, Each each) const;

  Index add(const Value& value);
  Index add_integer(std::int64_t value);
  Index add_text(std::string_view text);                            // a part of the pickle
  Index add_with_items(Value value, std::span<const Index> items);  // which never grow
  void append(Index to, std::span<const Index> items);              // to a list or a dictionary

 private:
  std::string_view pickle_;
  std::deque<Value> values_;
  // Those of lists and dictionaries lie in parts: where the next one is (0: nowhere), how many
  // there are, and they.
  std::deque<Index> items_;
};

// The value of a name; none where it is not on the list.
std::optional<Value> find_allowed(std::string_view module, std::string_view name);

template <class Each>
void Values::for_items(Index at, Each each) const {
  const Value& v = values_[at];
  if (v.kind != Kind::list && v.kind != Kind::dictionary) {
    for (std::size_t i = 0; i < v.count; ++i)
      if (!each(items_[v.first + i])) return;
    return;
  }
  for (std::size_t part = v.first; part != 0; part = items_[part])
    for (std::size_t i = 0; i < items_[part + 1]; ++i)
      if (!each(items_[part + 2 + i])) return;
}

}  // namespace planck::pickle
