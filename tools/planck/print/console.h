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
// The same with --quiet, too: what was asked for by name.
void print_asked_for(std::string_view text);
// JSON that was asked for: ASCII, so that no byte of a file reaches a terminal;
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

// Interrupts as above; an input that was made shorter while it is read is one line and exit code 2,
// or 3 where outputs are in place.
void handle_signals();

// How many files this process has put in place.
std::size_t outputs_in_place();
// None of them counts: they lie where they will be removed.
void count_no_outputs();

}  // namespace planck::cli
