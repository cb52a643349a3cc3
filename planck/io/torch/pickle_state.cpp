#include "planck/io/torch/pickle_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "planck/io/safetensors_header.h"

namespace planck::pickle {

namespace {

constexpr std::size_t kMaxNesting = 32, kMaxTensorRank = 64;

// What tensors and their names may take: small pickles name some again and again, large ones once.
std::size_t most_bytes(std::size_t pickle) {
  return 65536 + std::min(8 * pickle, (std::size_t{1} << 24) + 2 * pickle);
}

// Walks dictionaries and lists; the first reason to stop is left in error_.
class Flattener {
 public:
  Flattener(const Values& values, std::size_t pickle_bytes)
      : values_(values), most_bytes_(most_bytes(pickle_bytes)) {}

  Result<PickledState> run(Index top) {
    flatten(top, "");
    if (!error_.empty()) return fail(ErrorCode::io, fmt::format("pickle: {}", error_));
    return std::move(state_);
  }

 private:
  bool stop(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }
  // Everything that is met is paid for, so that what is in many places takes no time without end.
  bool spend(std::size_t bytes) {
    bytes_ += bytes;
    return bytes_ <= most_bytes_ ||
           stop(fmt::format("its tensors' names and shapes take more than {} bytes", most_bytes_));
  }
  std::optional<std::vector<std::int64_t>> integers(Index tuple) const {
    std::vector<std::int64_t> numbers;
    if (values_[tuple].count > kMaxTensorRank) return std::nullopt;
    for (std::size_t i = 0; i < values_[tuple].count; ++i) {
      const Index at = values_.item(tuple, i);
      if (values_[at].kind != Kind::integer || values_.integer(at) < 0) return std::nullopt;
      numbers.push_back(values_.integer(at));
    }
    return numbers;
  }
  void add_tensor(Index at, const std::string& name) {
    const Index storage = values_.item(at, 0);
    auto shape = integers(values_.item(at, 2)), strides = integers(values_.item(at, 3));
    const std::int64_t offset = values_.integer(values_.item(at, 1));
    if (!shape || !strides || shape->size() != strides->size() || offset < 0) {
      stop(fmt::format(
          "tensor {}: offset, shape or strides are not whole numbers, or differ in rank",
          in_quotes(name)));
      return;
    }
    const std::string_view key = values_.text(values_.item(storage, 0));
    if (!spend(sizeof(PickledTensor) + name.size() + key.size() + 16 * shape->size())) return;
    if (state_.tensors.size() == kMaxSafetensorsEntries) {
      stop(fmt::format("has more than {} tensors", kMaxSafetensorsEntries));
      return;
    }
    const bool typed = values_.type(storage) == values_.type(at);
    state_.tensors.push_back({name, std::string(key), values_.type(at),
                              typed ? values_.integer(values_.item(storage, 1)) : -1, offset,
                              std::move(*shape), std::move(*strides)});
  }
  // One item of a dictionary or a list; its name is made only where there is something to name.
  template <class Name>
  bool add_item(Index at, const std::string& outer, Name name) {
    const Kind kind = values_[at].kind;
    if (!spend(1)) return false;
    const bool named = kind == Kind::tensor || kind == Kind::dictionary || kind == Kind::list ||
                       kind == Kind::tuple;
    if (!named && state_.left_out.names.size() == LeftOut::kMostNames) {
      ++state_.left_out.count;
      return true;
    }
    std::string full = outer.empty() ? std::string(name()) : fmt::format("{}.{}", outer, name());
    if (!spend(full.size())) return false;
    flatten(at, full);
    return error_.empty();
  }
  void leave_out(const std::string& name) {
    ++state_.left_out.count;
    if (state_.left_out.names.size() < LeftOut::kMostNames && !name.empty())
      state_.left_out.names.push_back(name);
  }
  void flatten(Index at, const std::string& name) {
    const Kind kind = values_[at].kind;
    if (kind == Kind::tensor) return add_tensor(at, name.empty() ? "tensor" : name);
    const bool named = kind == Kind::dictionary;
    if (!named && kind != Kind::list && kind != Kind::tuple) return leave_out(name);
    if (std::find(open_.begin(), open_.end(), at) != open_.end()) {
      stop("has a dictionary or a list inside itself");
      return;
    }
    if (open_.size() == kMaxNesting) {
      stop(fmt::format("nests dictionaries and lists {} deep, {} are read", kMaxNesting + 1,
                       kMaxNesting));
      return;
    }
    open_.push_back(at);
    Index key = 0;
    std::size_t i = 0;
    values_.for_items(at, [&](Index item) {
      const std::size_t place = i++;
      if (!named) return add_item(item, name, [&] { return std::to_string(place); });
      if (place % 2 == 0) {
        key = item;
        return true;
      }
      return add_entry(key, item, name);
    });
    open_.pop_back();
  }
  bool add_entry(Index key, Index value, const std::string& outer) {
    if (values_[key].kind == Kind::integer)
      return add_item(value, outer, [&] { return std::to_string(values_.integer(key)); });
    if (values_[key].kind == Kind::text && values_[key].count > 0)
      return add_item(value, outer, [&] { return values_.text(key); });
    leave_out("");
    return spend(1);
  }

  const Values& values_;
  std::size_t most_bytes_, bytes_ = 0;
  std::vector<Index> open_;  // from the top to where we are
  PickledState state_;
  std::string error_;
};

}  // namespace

Result<PickledState> state_of(const Values& values, Index top, std::size_t pickle_bytes) {
  return Flattener(values, pickle_bytes).run(top);
}

}  // namespace planck::pickle
