#include "planck/io/torch/pickle_state.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "planck/io/safetensors_header.h"

namespace planck::pickle {

namespace {

constexpr int kMaxNesting = 32;

// Walks dictionaries; the first reason to stop is left in error_.
class Flattener {
 public:
  Flattener(std::span<const Value> values, std::size_t pickle_bytes)
      : values_(values), most_name_bytes_(65536 + 4 * pickle_bytes) {}

  Result<PickledState> run(Index top) {
    flatten(top, "", 0);
    if (!error_.empty()) return fail(ErrorCode::io, fmt::format("pickle: {}", error_));
    return std::move(state_);
  }

 private:
  void stop(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  std::optional<std::vector<std::int64_t>> integers(Index sequence) const {
    std::vector<std::int64_t> numbers;
    for (const Index i : values_[sequence].items) {
      if (values_[i].kind != Kind::integer || values_[i].integer < 0) return std::nullopt;
      numbers.push_back(values_[i].integer);
    }
    return numbers;
  }
  void add_tensor(const std::string& name, const Value& v) {
    const auto shape = integers(v.items[1]), strides = integers(v.items[2]);
    if (!shape || !strides || shape->size() != strides->size() || v.integer < 0 ||
        shape->size() > 64)
      return stop(fmt::format(
          "tensor {}: offset, shape or strides are not whole numbers, or differ in rank",
          in_quotes(name)));
    const Value& storage = values_[v.items[0]];
    const bool typed = storage.type == v.type;
    state_.tensors.push_back({name, std::string(storage.text), v.type, typed ? storage.integer : -1,
                              v.integer, *shape, *strides});
  }
  void flatten(Index at, const std::string& name, int nesting) {
    const Value& v = values_[at];
    if (!error_.empty()) return;
    if (v.kind == Kind::tensor) return add_tensor(name.empty() ? "tensor" : name, v);
    if (v.kind != Kind::dictionary) {
      ++state_.left_out;
      return;
    }
    if (nesting == kMaxNesting)
      return stop(fmt::format("nests dictionaries {} deep, {} are read", nesting + 1, kMaxNesting));
    // A dictionary inside itself, or one met again and again, would not end.
    if (!flattened_.insert(at).second) return stop("has the same dictionary in two places");
    for (std::size_t i = 0; i + 1 < v.items.size(); i += 2) {
      const Value& key = values_[v.items[i]];
      const std::string text = key.kind == Kind::text      ? std::string(key.text)
                               : key.kind == Kind::integer ? std::to_string(key.integer)
                                                           : "";
      if (text.empty()) {
        ++state_.left_out;
        continue;
      }
      // Paths repeat what is outside them: all together stay a small multiple of the file.
      name_bytes_ += name.size() + text.size() + 1;
      if (name_bytes_ > most_name_bytes_)
        return stop(fmt::format("has names of more than {} bytes", most_name_bytes_));
      flatten(v.items[i + 1], name.empty() ? text : name + "." + text, nesting + 1);
    }
  }

  std::span<const Value> values_;
  std::size_t most_name_bytes_, name_bytes_ = 0;
  std::unordered_set<Index> flattened_;
  PickledState state_;
  std::string error_;
};

}  // namespace

Result<PickledState> state_of(std::span<const Value> values, Index top, std::size_t pickle_bytes) {
  return Flattener(values, pickle_bytes).run(top);
}

}  // namespace planck::pickle
