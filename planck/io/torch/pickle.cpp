#include "planck/io/torch/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "planck/io/safetensors_header.h"
#include "planck/io/torch/pickle_state.h"

namespace planck {

namespace {

using namespace pickle;

constexpr std::size_t kMaxValues = std::size_t{1} << 21, kMaxBytes = std::size_t{1} << 26;
constexpr std::size_t kMaxArguments = 16;

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// The stack machine. Every step either succeeds or leaves its reason in error_.
class Machine {
 public:
  explicit Machine(std::span<const std::byte> bytes) : bytes_(bytes) { values_.emplace_back(); }

  Result<PickledState> run() {
    while (error_.empty() && !stopped_) step();
    if (!error_.empty()) return refuse(fmt::format("pickle: {}", error_));
    return state_of(values_, stack_.back(), bytes_.size());
  }

 private:
  void stop(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }

  // ---- bytes --------------------------------------------------------------------------------

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      stop(fmt::format("ends at byte {}, inside what it says", bytes_.size()));
      return {};
    }
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += count;
    return {begin, count};
  }
  template <class T>
  T number() {
    T value{};
    if (const auto bytes = take(sizeof(T)); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const auto* begin = bytes_.data() + at_;
    const auto* end = std::find(begin, bytes_.data() + bytes_.size(), std::byte{'\n'});
    const auto text = take(static_cast<std::uint64_t>(end - begin));
    (void)take(1);
    return text;
  }

  // ---- the stack ----------------------------------------------------------------------------

  void push(Value value) {
    if (values_.size() == kMaxValues)
      return stop(fmt::format("has more than {} values, no checkpoint needs so many", kMaxValues));
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<Index>(values_.size() - 1));
  }
  // What lies above the last mark, or the top where nothing is said of marks.
  Index pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      stop(fmt::format("takes from an empty stack at byte {}", at_));
      return 0;
    }
    const Index top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) {
      stop(fmt::format("has no mark at byte {}", at_));
      return {};
    }
    std::vector<Index> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                             stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  Value* top(Kind kind, std::string_view what) {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()) ||
        values_[stack_.back()].kind != kind) {
      stop(fmt::format("adds to what is not {} at byte {}", what, at_));
      return nullptr;
    }
    return &values_[stack_.back()];
  }
  void push_sequence(std::vector<Index> items) {
    push({.kind = Kind::sequence, .items = std::move(items)});
  }
  void push_last(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_sequence(std::move(items));
  }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = text}); }
  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void remember(std::uint64_t place) {
    if (stack_.empty()) return stop(fmt::format("remembers nothing at byte {}", at_));
    memo_[place] = stack_.back();
  }
  void recall(std::uint64_t place) {
    const auto it = memo_.find(place);
    if (it == memo_.end()) return stop(fmt::format("recalls {}, which it never kept", place));
    stack_.push_back(it->second);
    // Each recall is one entry of the stack and no new value: still linear in the bytes.
  }

  // ---- opcodes ------------------------------------------------------------------------------

  void step();
  void long_integer() {
    const auto count = number<std::uint8_t>();
    const auto bytes = take(count);
    if (bytes.size() > 8)
      return stop(fmt::format("has an integer of {} bytes, 8 are read", bytes.size()));
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
    if (!bytes.empty() && bytes.size() < 8 && (static_cast<std::uint8_t>(bytes.back()) & 0x80) != 0)
      value |= ~std::uint64_t{0} << (8 * bytes.size());
    push_integer(static_cast<std::int64_t>(value));
  }
  void global(std::string_view module, std::string_view name) {
    if (const auto allowed = find_allowed(module, name)) return push(*allowed);
    stop(fmt::format(
        "names {} of module {}, which is not on the list of what may be in a checkpoint; "
        "nothing was executed",
        in_quotes(name), in_quotes(module)));
  }
  void stack_global() {
    const Index name = pop(), module = pop();
    if (values_[name].kind != Kind::text || values_[module].kind != Kind::text)
      return stop(fmt::format("names something by what is not text at byte {}", at_));
    global(values_[module].text, values_[name].text);
  }
  void set_items(const std::vector<Index>& items) {
    Value* dictionary = top(Kind::dictionary, "a dictionary");
    if (dictionary == nullptr) return;
    if (items.size() % 2 != 0)
      return stop(fmt::format("has a key without a value at byte {}", at_));
    dictionary->items.insert(dictionary->items.end(), items.begin(), items.end());
  }
  void append(const std::vector<Index>& items) {
    Value* list = top(Kind::sequence, "a list");
    if (list != nullptr) list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void persistent() {
    // ("storage", type, key, device, elements)
    const Value& id = values_[pop()];
    const auto& in = id.items;
    if (id.kind != Kind::sequence || in.size() != 5 || values_[in[0]].text != "storage" ||
        values_[in[1]].kind != Kind::name || values_[in[1]].global != Global::storage_type ||
        values_[in[2]].kind != Kind::text || values_[in[4]].kind != Kind::integer)
      return stop(fmt::format("refers to something outside that is not a storage at byte {}", at_));
    Value storage{.kind = Kind::storage,
                  .type = values_[in[1]].type,
                  .integer = values_[in[4]].integer,
                  .text = values_[in[2]].text};
    push(std::move(storage));
  }
  void reduce() {
    const Value& arguments = values_[pop()];
    const Value& callee = values_[pop()];
    if (!error_.empty()) return;
    if (callee.kind != Kind::name || arguments.kind != Kind::sequence)
      return stop(fmt::format("calls what has no name at byte {}; nothing was executed", at_));
    if (arguments.items.size() > kMaxArguments)
      return stop(fmt::format("calls with {} arguments at byte {}", arguments.items.size(), at_));
    call(callee.global, std::vector<Index>(arguments.items));
  }
  void call(Global global, const std::vector<Index>& in) {
    switch (global) {
      case Global::ordered_dict:
        if (!in.empty() && !(in.size() == 1 && values_[in[0]].items.empty()))
          return stop(fmt::format("makes a dictionary of {} arguments at byte {}", in.size(), at_));
        return push({.kind = Kind::dictionary});
      case Global::size:
        if (in.size() != 1 || values_[in[0]].kind != Kind::sequence)
          return stop(fmt::format("makes a size of {} arguments at byte {}", in.size(), at_));
        stack_.push_back(in[0]);
        return;
      case Global::parameter:
        if (in.empty() || values_[in[0]].kind != Kind::tensor)
          return stop(fmt::format("makes a parameter of what is no tensor at byte {}", at_));
        stack_.push_back(in[0]);
        return;
      case Global::tensor:
      case Global::tensor_v2:
      case Global::tensor_v3:
        return make_tensor(global, in);
      default:
        stop(fmt::format("calls a type at byte {}; nothing was executed", at_));
    }
  }
  // (storage, offset, shape, strides, …); _v3 has the element type at place 6.
  void make_tensor(Global global, const std::vector<Index>& in) {
    if (in.size() < 4 || values_[in[0]].kind != Kind::storage ||
        values_[in[1]].kind != Kind::integer || values_[in[2]].kind != Kind::sequence ||
        values_[in[3]].kind != Kind::sequence)
      return stop(fmt::format(
          "makes a tensor of what is no storage, offset, shape and strides at byte {}", at_));
    Value tensor{.kind = Kind::tensor,
                 .type = values_[in[0]].type,
                 .integer = values_[in[1]].integer,
                 .items = {in[0], in[2], in[3]}};
    if (global == Global::tensor_v3) {
      if (in.size() < 7 || values_[in[6]].kind != Kind::name ||
          values_[in[6]].global != Global::element_type)
        return stop(fmt::format("makes a tensor without an element type at byte {}", at_));
      tensor.type = values_[in[6]].type;
    }
    push(std::move(tensor));
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::vector<Value> values_;  // the first is what a failed pop gives
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
  std::string error_;
  bool stopped_ = false;
};

void Machine::step() {
  const std::uint64_t here = at_;
  const auto code = static_cast<std::uint8_t>(number<char>());
  if (!error_.empty()) return;
  switch (code) {
    case 0x80:  // PROTO
      if (const auto version = number<std::uint8_t>(); version > 5)
        stop(fmt::format("has protocol {}, 0 to 5 are read", version));
      return;
    case 0x95:  // FRAME
      (void)take(8);
      return;
    case '(':
      marks_.push_back(stack_.size());
      return;
    case ')':
      return push_sequence({});
    case ']':
      return push_sequence({});
    case '}':
      return push({.kind = Kind::dictionary});
    case 't':
    case 'l':
      return push_sequence(pop_to_mark());
    case 0x85:
    case 0x86:
    case 0x87:  // TUPLE1, TUPLE2, TUPLE3
      return push_last(code - 0x84u);
    case 'N':
      return push({});
    case 0x88:
    case 0x89:
      return push({.kind = Kind::boolean, .integer = code == 0x88});
    case 'J':
      return push_integer(number<std::int32_t>());
    case 'K':
      return push_integer(number<std::uint8_t>());
    case 'M':
      return push_integer(number<std::uint16_t>());
    case 0x8a:
      return long_integer();
    case 'G':
      (void)take(8);
      return push({.kind = Kind::real});
    case 'X':
    case 'T':
      return push_text(take(number<std::uint32_t>()));
    case 0x8c:
    case 'U':
      return push_text(take(number<std::uint8_t>()));
    case 0x8d:
      return push_text(take(number<std::uint64_t>()));
    case 'q':
      return remember(number<std::uint8_t>());
    case 'r':
      return remember(number<std::uint32_t>());
    case 0x94:
      return remember(memo_.size());
    case 'h':
      return recall(number<std::uint8_t>());
    case 'j':
      return recall(number<std::uint32_t>());
    case 'c': {
      const auto module = line(), name = line();
      if (error_.empty()) global(module, name);
      return;
    }
    case 0x93:
      return stack_global();
    case 'Q':
      return persistent();
    case 'R':
      return reduce();
    case 'b':  // BUILD: the state of a dictionary, such as its _metadata, has no tensors
      (void)pop();
      (void)top(Kind::dictionary, "a dictionary");
      return;
    case 's': {
      const Index value = pop(), key = pop();
      return set_items({key, value});
    }
    case 'u': {
      const auto items = pop_to_mark();
      return set_items(items);
    }
    case 'a':
      return append({pop()});
    case 'e': {
      const auto items = pop_to_mark();
      return append(items);
    }
    case '0':
      (void)pop();
      return;
    case '.':
      if (stack_.size() != 1 || !marks_.empty())
        return stop(fmt::format("stops with {} values, must have 1", stack_.size()));
      stopped_ = true;
      return;
    default:
      stop(fmt::format(
          "has opcode 0x{:02x} at byte {}, which no checkpoint needs; nothing was executed", code,
          here));
  }
}

}  // namespace

Result<PickledState> read_pickle(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxBytes)
    return refuse(
        fmt::format("pickle: has {} bytes, at most {} are read", bytes.size(), kMaxBytes));
  return Machine(bytes).run();
}

}  // namespace planck
