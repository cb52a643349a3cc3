#include "planck/io/torch/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "planck/io/safetensors_header.h"
#include "planck/io/torch/pickle_state.h"

namespace planck {

namespace {

using namespace pickle;

constexpr std::size_t kMaxBytes = std::size_t{1} << 26, kMaxArguments = 16;
// Values, what lies on the stack, and what is remembered: some 160,000 tensors' worth. Marks are as
// many as lists are nested.
constexpr std::size_t kMaxValues = std::size_t{1} << 21, kMaxMarks = 4096;

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// The stack machine. Every step either succeeds or leaves its reason in error_.
class Machine {
 public:
  explicit Machine(std::span<const std::byte> bytes) : bytes_(bytes), values_(bytes) {}

  Result<PickledState> run() {
    while (error_.empty() && !stopped_) step();
    if (!error_.empty()) return refuse(fmt::format("pickle: {}", error_));
    const Index top = stack_.back();
    for (auto* done : {&stack_, &memo_}) std::vector<Index>().swap(*done);
    return state_of(values_, top, bytes_.size());
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

  void push(Index value) {
    if (!error_.empty()) return;
    if (values_.size() > kMaxValues || stack_.size() == kMaxValues)
      return stop(fmt::format("has more than {} values, no checkpoint needs so many", kMaxValues));
    stack_.push_back(value);
  }
  void push(const Value& value) { push(values_.add(value)); }
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
  // What lies above the last mark, which goes; drop_to_mark takes it off the stack.
  std::span<const Index> above_mark() {
    if (marks_.empty()) {
      stop(fmt::format("has no mark at byte {}", at_));
      return {};
    }
    return std::span<const Index>(stack_).subspan(marks_.back());
  }
  void drop_to_mark() {
    if (!error_.empty()) return;
    stack_.resize(marks_.back());
    marks_.pop_back();
  }
  void mark() {
    if (marks_.size() == kMaxMarks)
      return stop(fmt::format("has more than {} marks at a time, no checkpoint does", kMaxMarks));
    marks_.push_back(stack_.size());
  }
  // The value on top, where it is of that kind; else none.
  std::optional<Index> top(Kind kind, std::string_view what) {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()) ||
        values_[stack_.back()].kind != kind) {
      stop(fmt::format("adds to what is not {} at byte {}", what, at_));
      return std::nullopt;
    }
    return stack_.back();
  }
  void push_items(Kind kind, std::span<const Index> items) {
    if (!error_.empty()) return;
    if (kind == Kind::tuple) return push(values_.add_with_items({.kind = kind}, items));
    push({.kind = kind});
    if (error_.empty()) values_.append(stack_.back(), items);
  }
  void push_to_mark(Kind kind) {
    const auto items = above_mark();
    const std::vector<Index> copy(items.begin(), items.end());
    drop_to_mark();
    push_items(kind, copy);
  }
  void push_last(std::size_t count) {
    Index items[3] = {};
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::tuple, std::span(items, count));
  }
  void push_text(std::string_view text) {
    if (error_.empty()) push(values_.add_text(text));
  }
  void push_integer(std::int64_t value) { push(values_.add_integer(value)); }
  // Places come in order; a pickle that was made smaller has left some out.
  void remember(std::uint64_t place) {
    if (stack_.empty()) return stop(fmt::format("remembers nothing at byte {}", at_));
    if (place >= std::min(kMaxValues, 1024 + 2 * bytes_.size()))
      return stop(fmt::format("remembers value {}, no checkpoint of {} bytes has so many", place,
                              bytes_.size()));
    if (place >= memo_.size()) memo_.resize(place + 1, kNothing);
    memo_[place] = stack_.back();
  }
  void recall(std::uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kNothing)
      return stop(fmt::format("recalls {}, which it never kept", place));
    push(memo_[place]);
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
    global(values_.text(module), values_.text(name));
  }
  void set_items(std::span<const Index> items, std::optional<Index> dictionary) {
    if (!error_.empty() || !dictionary) return;
    if (items.size() % 2 != 0)
      return stop(fmt::format("has a key without a value at byte {}", at_));
    values_.append(*dictionary, items);
  }
  // `u` and `e`: what lies above the mark goes into what lies below it.
  void add_to_mark(Kind kind, std::string_view what) {
    const auto above = above_mark();
    const std::vector<Index> items(above.begin(), above.end());
    drop_to_mark();
    if (!error_.empty()) return;
    const auto to = top(kind, what);
    if (kind == Kind::dictionary) return set_items(items, to);
    if (to) values_.append(*to, items);
  }
  bool is(Index at, Kind kind) const { return values_[at].kind == kind; }
  bool is_name(Index at, Global global) const {
    return is(at, Kind::name) && values_[at].global == global;
  }
  void persistent() {
    // ("storage", type, key, device, elements)
    const Index id = pop();
    const auto in = [&](std::size_t i) { return values_.item(id, i); };
    if (!is(id, Kind::tuple) || values_[id].count != 5 || !is(in(0), Kind::text) ||
        values_.text(in(0)) != "storage" || !is_name(in(1), Global::storage_type) ||
        !is(in(2), Kind::text) || !is(in(4), Kind::integer))
      return stop(fmt::format("refers to something outside that is not a storage at byte {}", at_));
    const Index items[] = {in(2), in(4)};
    push(values_.add_with_items({.kind = Kind::storage, .type = values_[in(1)].type}, items));
  }
  void reduce() {
    const Index arguments = pop(), callee = pop();
    if (!error_.empty()) return;
    if (!is(callee, Kind::name) || !is(arguments, Kind::tuple))
      return stop(fmt::format("calls what has no name at byte {}; nothing was executed", at_));
    std::vector<Index> in(values_[arguments].count);
    if (in.size() > kMaxArguments)
      return stop(fmt::format("calls with {} arguments at byte {}", in.size(), at_));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = values_.item(arguments, i);
    call(values_[callee].global, in);
  }
  void call(Global global, const std::vector<Index>& in) {
    switch (global) {
      case Global::ordered_dict:
        if (!in.empty() && !(in.size() == 1 && is(in[0], Kind::list) && values_[in[0]].count == 0))
          return stop(fmt::format("makes a dictionary of {} arguments at byte {}", in.size(), at_));
        return push({.kind = Kind::dictionary});
      case Global::size:
        if (in.size() != 1 || !is(in[0], Kind::tuple))
          return stop(fmt::format("makes a size of {} arguments at byte {}", in.size(), at_));
        return push(in[0]);
      case Global::parameter:
        if (in.empty() || !is(in[0], Kind::tensor))
          return stop(fmt::format("makes a parameter of what is no tensor at byte {}", at_));
        return push(in[0]);
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
    if (in.size() < 4 || !is(in[0], Kind::storage) || !is(in[1], Kind::integer) ||
        !is(in[2], Kind::tuple) || !is(in[3], Kind::tuple))
      return stop(fmt::format(
          "makes a tensor of what is no storage, offset, shape and strides at byte {}", at_));
    Value tensor{.kind = Kind::tensor, .type = values_[in[0]].type};
    if (global == Global::tensor_v3) {
      if (in.size() < 7 || !is_name(in[6], Global::element_type))
        return stop(fmt::format("makes a tensor without an element type at byte {}", at_));
      tensor.type = values_[in[6]].type;
    }
    push(values_.add_with_items(tensor, std::span(in).first(4)));
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  static constexpr Index kNothing = ~Index{0};

  Values values_;  // the first is what a failed pop gives
  std::vector<Index> stack_, memo_;
  std::vector<std::size_t> marks_;
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
      return mark();
    case ')':
      return push(Values::kEmptyTuple);
    case ']':
      return push({.kind = Kind::list});
    case '}':
      return push({.kind = Kind::dictionary});
    case 't':
      return push_to_mark(Kind::tuple);
    case 'l':
      return push_to_mark(Kind::list);
    case 0x85:
    case 0x86:
    case 0x87:  // TUPLE1, TUPLE2, TUPLE3
      return push_last(code - 0x84u);
    case 'N':
      return push(Values::kNone);
    case 0x88:
      return push(Values::kTrue);
    case 0x89:
      return push(Values::kFalse);
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
      return push(Values::kReal);
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
      const Index items[] = {key, value};
      return set_items(items, top(Kind::dictionary, "a dictionary"));
    }
    case 'u':
      return add_to_mark(Kind::dictionary, "a dictionary");
    case 'a': {
      const Index item[] = {pop()};
      if (const auto list = top(Kind::list, "a list")) values_.append(*list, item);
      return;
    }
    case 'e':
      return add_to_mark(Kind::list, "a list");
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
