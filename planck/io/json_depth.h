// How deep brackets of a JSON text stand within each other, before it is made into a tree: a tree
// takes a hundred bytes for a bracket, and is written out by recursion.
#pragma once

#include <string_view>

namespace planck {

inline constexpr int kMaxJsonDepth = 64;  // of settings: those of models have five or six

// Whether lists and objects nest deeper than `most`; brackets within texts do not count. A pure
// function of any bytes, JSON or not.
inline bool nests_deeper(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace planck
