// What commands say, how much of it, and what a signal makes them say.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "planck/io/printable.h"

namespace planck::cli {

using planck::printable;

enum class Verbosity { quiet, usual, verbose };
Verbosity& verbosity();

// To standard output, unless --quiet. What goes out is text of ours, or printable().
void print(std::string_view text);
template <class First, class... Rest>
void print(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  print(std::string_view(
      fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
}
// JSON that was asked for, --quiet or not: ASCII, so that no byte of a file reaches a terminal;
// what is not UTF-8 becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = 2);
void print_json(const nlohmann::ordered_json& json);

// Columns of the terminal that standard output is; 0 where it is none.
std::size_t terminal_columns(int file);

// While it lives, an interrupt says this, in one line, before the process ends by the signal.
class InterruptHint {
 public:
  InterruptHint(std::string_view command, std::string_view how_to_go_on);
  InterruptHint(const InterruptHint&) = delete;
  ~InterruptHint();
};

// Interrupts as above; an input that was made shorter while it is read is one line and exit code 2.
void handle_signals();

}  // namespace planck::cli
