// A text as tokens: its bytes; for vocabularies below 256, printable ASCII and the end of a line,
// for which a tab is a blank and every other byte a question mark.
#pragma once

#include <algorithm>
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
    if (has(byte)) return !ascii ? byte : byte == '\n' ? 95 : byte - 32;
    return byte == '\t' ? 0 : '?' - 32;
  }
  // Whether a byte has a token of its own.
  bool has(unsigned char byte) const {
    return !ascii || byte == '\n' || (byte >= 32 && byte < 127);
  }
  // How many bytes of a text have none.
  std::int64_t replaced(const std::string& text) const {
    return std::count_if(text.begin(), text.end(),
                         [&](char c) { return !has(static_cast<unsigned char>(c)); });
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
