#include "tools/planck/checkpoint/name_pattern.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "planck/io/safetensors_header.h"

namespace planck::cli {

namespace {

using Step = NamePattern::Step;
using Kind = Step::Kind;
using Bytes = std::bitset<256>;

constexpr std::size_t kMostSteps = 10000, kMostAtoms = 100000, kDeepest = 100;
constexpr int kMostTimes = 1000;

struct Refused {
  std::string why;
};

// Reads an expression and makes the steps from its end to its front: what follows is known when a
// part is made. So a part that is repeated n times is read n times.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::uint32_t all(std::vector<Step>& steps) {
    steps_ = &steps;
    const std::uint32_t found = add({Kind::found});
    const std::uint32_t start = alternatives(0, text_.size(), found, 0);
    return start;
  }

 private:
  std::uint32_t add(Step step) {
    if (steps_->size() == kMostSteps) throw Refused{"it is too large"};
    steps_->push_back(step);
    return static_cast<std::uint32_t>(steps_->size() - 1);
  }

  // [first, last) is a|b|c; the step it leads to is `next`.
  std::uint32_t alternatives(std::size_t first, std::size_t last, std::uint32_t next,
                             std::size_t depth) {
    if (depth > kDeepest) throw Refused{"its parentheses are nested too deeply"};
    std::vector<std::uint32_t> all;
    for (std::size_t at = first;; ++at) {
      const std::size_t begin = at;
      while (at < last && text_[at] != '|') at = atom_end(at, last);
      all.push_back(sequence(begin, at, next, depth));
      if (at == last) break;
    }
    std::uint32_t start = all.back();
    for (std::size_t i = all.size() - 1; i-- > 0;) start = add({Kind::split, all[i], start});
    return start;
  }

  struct Part {
    std::size_t first, end, after;  // the atom, and the end of what says how often
    int least, most;                // most: −1 without end
  };

  std::uint32_t sequence(std::size_t first, std::size_t last, std::uint32_t next,
                         std::size_t depth) {
    std::vector<Part> parts;
    for (std::size_t at = first; at < last; at = parts.back().after)
      parts.push_back(part(at, last));
    for (std::size_t i = parts.size(); i-- > 0;) next = repeated(parts[i], next, depth);
    return next;
  }

  Part part(std::size_t at, std::size_t last) {
    const char c = text_[at];
    if (c == '*' || c == '+' || c == '?' || c == '{')
      throw Refused{fmt::format("{} repeats nothing", c)};
    Part p{at, atom_end(at, last), 0, 1, 1};
    p.after = p.end;
    if (p.after == last) return p;
    switch (text_[p.after]) {
      case '*':
        return {at, p.end, p.after + 1, 0, -1};
      case '+':
        return {at, p.end, p.after + 1, 1, -1};
      case '?':
        return {at, p.end, p.after + 1, 0, 1};
      case '{':
        break;
      default:
        return p;
    }
    ++p.after;
    p.least = p.most = number(p.after, last);
    if (p.after < last && text_[p.after] == ',') {
      ++p.after;
      p.most = p.after < last && text_[p.after] == '}' ? -1 : number(p.after, last);
    }
    if (p.after == last || text_[p.after] != '}') throw Refused{"{ has no }"};
    if (p.most >= 0 && p.most < p.least) throw Refused{"{} counts down"};
    ++p.after;
    return p;
  }

  int number(std::size_t& at, std::size_t last) const {
    int value = 0;
    const std::size_t begin = at;
    for (; at < last && std::isdigit(static_cast<unsigned char>(text_[at])) != 0; ++at)
      if ((value = 10 * value + (text_[at] - '0')) > kMostTimes)
        throw Refused{fmt::format("{{}} counts beyond {}", kMostTimes)};
    if (at == begin) throw Refused{"{} holds no number"};
    return value;
  }

  std::uint32_t repeated(const Part& p, std::uint32_t next, std::size_t depth) {
    if (p.most < 0) {  // again and again, or on
      const std::uint32_t loop = add({Kind::split, 0, next});
      const std::uint32_t again = atom(p.first, p.end, loop, depth);
      (*steps_)[loop].next = again;
      next = loop;
    }
    for (int i = p.least; i < p.most; ++i)
      next = add({Kind::split, atom(p.first, p.end, next, depth), next});
    for (int i = 0; i < p.least; ++i) next = atom(p.first, p.end, next, depth);
    return next;
  }

  // Where the atom at a place ends: a group, a class, an escape, or one byte.
  std::size_t atom_end(std::size_t at, std::size_t last) const {
    if (text_[at] == '\\') {
      if (at + 1 == last) throw Refused{"\\ ends it"};
      return at + 2;
    }
    if (text_[at] == '[') return class_end(at, last);
    if (text_[at] == ')') throw Refused{") closes nothing"};
    if (text_[at] != '(') return at + 1;
    std::size_t open = 1;
    for (std::size_t i = at + 1; i < last;) {
      if (text_[i] == '(') {
        ++open;
        ++i;
      } else if (text_[i] == ')') {
        ++i;
        if (--open == 0) return i;
      } else {
        i = atom_end(i, last);
      }
    }
    throw Refused{"( has no )"};
  }

  std::size_t class_end(std::size_t at, std::size_t last) const {
    std::size_t i = at + 1;
    if (i < last && text_[i] == '^') ++i;
    if (i < last && text_[i] == ']') ++i;
    for (; i < last && text_[i] != ']'; ++i)
      if (text_.substr(i, 2) == "[:")
        if (const std::size_t end = text_.find(":]", i + 2); end != text_.npos && end < last)
          i = end + 1;
    if (i == last) throw Refused{"[ has no ]"};
    return i + 1;
  }

  std::uint32_t atom(std::size_t first, std::size_t end, std::uint32_t next, std::size_t depth) {
    // One that adds no step, such as (), could be repeated without end.
    if (++atoms_ > kMostAtoms) throw Refused{"it is too large"};
    switch (text_[first]) {
      case '(':
        return alternatives(first + 1, end - 1, next, depth + 1);
      case '^':
        return add({Kind::begin, next});
      case '$':
        return add({Kind::end, next});
      case '.':
        return add({Kind::byte, next, 0, Bytes().set()});
      case '[':
        return add({Kind::byte, next, 0, class_of(text_.substr(first + 1, end - first - 2))});
      case '\\':
        return add({Kind::byte, next, 0, escaped(text_[first + 1])});
      default:
        return add({Kind::byte, next, 0, one(text_[first])});
    }
  }

  static Bytes one(char c) { return Bytes().set(static_cast<unsigned char>(c)); }
  template <class Is>
  static Bytes those(const Is& is) {
    Bytes b;
    for (int c = 0; c < 128; ++c) b[static_cast<std::size_t>(c)] = is(c) != 0;
    return b;
  }
  static Bytes word() {
    return those([](int c) { return std::isalnum(c) != 0 || c == '_'; });
  }
  static Bytes escaped(char c) {
    switch (c) {
      case 'd':
        return those([](int x) { return std::isdigit(x); });
      case 'D':
        return ~escaped('d');
      case 's':
        return those([](int x) { return std::isspace(x); });
      case 'S':
        return ~escaped('s');
      case 'w':
        return word();
      case 'W':
        return ~word();
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      default:
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
          throw Refused{fmt::format("\\{} means nothing here", c)};
        return one(c);
    }
  }

  static Bytes named(std::string_view name) {
    const std::pair<std::string_view, int (*)(int)> kNames[] = {
        {"alpha", std::isalpha}, {"digit", std::isdigit},   {"alnum", std::isalnum},
        {"upper", std::isupper}, {"lower", std::islower},   {"space", std::isspace},
        {"punct", std::ispunct}, {"xdigit", std::isxdigit}, {"blank", std::isblank},
        {"print", std::isprint}, {"graph", std::isgraph},   {"cntrl", std::iscntrl}};
    for (const auto& [known, is] : kNames)
      if (known == name) return those(is);
    throw Refused{fmt::format("[:{}:] is no class", name)};
  }

  static Bytes class_of(std::string_view inside) {
    const bool turned = inside.starts_with('^');
    if (turned) inside.remove_prefix(1);
    Bytes all;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside.substr(i, 2) == "[:")
        if (const std::size_t end = inside.find(":]", i + 2); end != inside.npos) {
          all |= named(inside.substr(i + 2, end - i - 2));
          i = end + 1;
          continue;
        }
      const auto low = static_cast<unsigned char>(inside[i]);
      auto high = low;
      if (i + 2 < inside.size() && inside[i + 1] == '-') {
        high = static_cast<unsigned char>(inside[i + 2]);
        if (high < low) throw Refused{"a range of [] counts down"};
        i += 2;
      }
      for (std::size_t c = low; c <= high; ++c) all.set(c);
    }
    return turned ? ~all : all;
  }

  std::string_view text_;
  std::vector<Step>* steps_ = nullptr;
  std::size_t atoms_ = 0;
};

// The steps that are possible at a place of the name, each once.
class Front {
 public:
  explicit Front(const std::vector<Step>& steps) : steps_(steps), seen_(steps.size(), 0) {}

  void clear() {
    now_.clear();
    ++turn_;
  }
  // Follows what takes no byte; true where the expression is found.
  bool add(std::uint32_t first, bool begin, bool end) {
    open_.assign(1, first);
    while (!open_.empty()) {
      const std::uint32_t at = open_.back();
      open_.pop_back();
      if (seen_[at] == turn_) continue;
      seen_[at] = turn_;
      const Step& step = steps_[at];
      switch (step.kind) {
        case Kind::found:
          return true;
        case Kind::byte:
          now_.push_back(at);
          break;
        case Kind::split:
          open_.push_back(step.other);
          open_.push_back(step.next);
          break;
        case Kind::begin:
          if (begin) open_.push_back(step.next);
          break;
        case Kind::end:
          if (end) open_.push_back(step.next);
          break;
      }
    }
    return false;
  }
  const std::vector<std::uint32_t>& now() const { return now_; }

 private:
  const std::vector<Step>& steps_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t turn_ = 1;
  std::vector<std::uint32_t> now_, open_;
};

}  // namespace

Result<NamePattern> NamePattern::compile(const std::string& text) {
  NamePattern pattern;
  try {
    pattern.start_ = Parser(text).all(pattern.steps_);
  } catch (const Refused& refused) {
    return fail(ErrorCode::invalid_problem,
                fmt::format("{} is not a regular expression: {}",
                            text.size() > 200 ? in_quotes(text) : text, refused.why));
  }
  return pattern;
}

bool NamePattern::found_in(std::string_view name) const {
  Front fronts[] = {Front(steps_), Front(steps_)};
  Front *here = &fronts[0], *next = &fronts[1];
  if (here->add(start_, true, name.empty())) return true;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool end = i + 1 == name.size();
    next->clear();
    for (const std::uint32_t at : here->now())
      if (steps_[at].bytes[static_cast<unsigned char>(name[i])] &&
          next->add(steps_[at].next, false, end))
        return true;
    if (next->add(start_, false, end)) return true;
    std::swap(here, next);
  }
  return false;
}

}  // namespace planck::cli
