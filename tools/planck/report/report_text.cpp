#include "tools/planck/report/report_text.h"

#include <fmt/format.h>

#include <cmath>

namespace planck::cli {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Bytes of the UTF-8 sequence at the front of `text`; 0 where there is none that HTML allows.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80)
    return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  if (first >= 0xc2 && first <= 0xdf && follows(1))
    return first == 0xc2 && byte(1) < 0xa0 ? 0 : 2;  // no control characters
  if (first >= 0xe0 && first <= 0xef && follows(1) && follows(2)) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) >= 0xa0;
    const bool no_character = first == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe;
    return overlong || surrogate || no_character ? 0 : 3;
  }
  if (first >= 0xf0 && first <= 0xf4 && follows(1) && follows(2) && follows(3)) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool beyond = first == 0xf4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    switch (text.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string with_minus_signs(std::string number) {
  for (std::size_t at = 0; (at = number.find('-', at)) != std::string::npos;)
    number.replace(at, 1, "−");
  return number;
}

std::string percent_text(double fraction) {
  return std::isfinite(fraction) ? with_minus_signs(fmt::format("{:.2f} %", 100 * fraction)) : "–";
}

std::string loss_text(double loss) {
  return std::isfinite(loss) ? with_minus_signs(fmt::format("{:.3g}", loss)) : "–";
}

std::string microseconds_text(double microseconds) {
  if (!std::isfinite(microseconds)) return "–";
  return with_minus_signs(fmt::format("{:.{}f} µs", microseconds, microseconds < 9.95 ? 2 : 1));
}

}  // namespace planck::cli
