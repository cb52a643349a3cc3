#include "tools/planck/print/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "planck/io/mapped_file.h"
#include "planck/io/output_file.h"
#include "tools/planck/exit_codes.h"

namespace planck::cli {

namespace {

constexpr std::string_view kWipe = "\r\033[K";

char hint_text[1024];
std::atomic<std::size_t> hint_length{0};
std::atomic<bool> outputs_count{true};

// Of what a signal handler may call: write alone.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void on_interrupt(int signal) {
  if (isatty(STDERR_FILENO) != 0) say(kWipe);
  if (const std::size_t n = hint_length.load(); n > 0)
    say({hint_text, n});
  else
    say("planck: interrupted\n");
  (void)std::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const char* path = MappedFile::path_of_mapping(info->si_addr);
  if (path == nullptr) {  // not ours to explain
    (void)std::signal(signal, SIG_DFL);
    (void)::raise(signal);
    return;
  }
  if (isatty(STDERR_FILENO) != 0) say(kWipe);
  say("planck: ");
  for (const char* c = path; *c != 0; ++c) say({*c < 0x20 || *c == 0x7f ? " " : c, 1});
  const bool some = outputs_in_place() > 0;
  say(some ? ": was made shorter while it was read; outputs that are in place are whole\n"
           : ": was made shorter while it was read; nothing is written\n");
  _exit(some ? kBadAfterOutput : kBadInput);
}

}  // namespace

Verbosity& verbosity() {
  static Verbosity level = Verbosity::usual;
  return level;
}

void print(std::string_view text) {
  if (verbosity() != Verbosity::quiet) print_asked_for(text);
}

// A stream that has failed remembers it: main() looks.
void print_asked_for(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& json) { print_asked_for(json_text(json)); }

std::size_t terminal_columns(int file) {
  winsize size{};
  if (isatty(file) == 0 || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

InterruptHint::InterruptHint(std::string_view command, std::string_view how_to_go_on) {
  const std::string line =
      printable(fmt::format("planck {}: interrupted; {}", command, how_to_go_on));
  hint_length = 0;
  std::size_t n = std::min(line.size(), sizeof hint_text - 1);
  std::memcpy(hint_text, line.data(), n);
  hint_text[n++] = '\n';
  hint_length = n;
}
InterruptHint::~InterruptHint() { hint_length = 0; }

void handle_signals() {
  // A file size limit is an error with a message, not the end of the process.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM})
    if (std::signal(signal, on_interrupt) == SIG_IGN) (void)std::signal(signal, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  (void)sigaction(SIGBUS, &action, nullptr);
}

std::size_t outputs_in_place() { return outputs_count ? OutputFile::committed() : 0; }
void count_no_outputs() { outputs_count = false; }

}  // namespace planck::cli
