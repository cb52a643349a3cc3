// A text as tokens: its bytes; for vocabularies below 256, printable ASCII and the end of a line.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "planck/core/refuse.h"

namespace gpt {

struct Tokens {
  bool ascii = false;

  explicit Tokens(std::int64_t vocabulary) : ascii(vocabulary < 256) {
    if (vocabulary < 96) planck::refuse("gpt: a vocabulary of {}, 96 are the least", {vocabulary});
  }
  std::int64_t token(unsigned char byte) const {
    if (!ascii) return byte;
    if (byte == '\n') return 95;
    if (byte == '\t') return 0;
    return byte >= 32 && byte < 127 ? byte - 32 : '?' - 32;
  }
  std::vector<std::int64_t> encoded(const std::string& text) const {
    std::vector<std::int64_t> tokens;
    for (const char c : text) tokens.push_back(token(static_cast<unsigned char>(c)));
    return tokens;
  }
  // Tokens that no text has are shown as question marks.
  std::string decoded(const std::vector<std::int64_t>& tokens) const {
    std::string text;
    for (const std::int64_t t : tokens)
      text += static_cast<char>(ascii ? (t == 95 ? '\n' : t + 32) : (t < 256 ? t : '?'));
    return text;
  }
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) planck::refuse("gpt: {} cannot be read", {path});
  return text;
}

}  // namespace gpt
