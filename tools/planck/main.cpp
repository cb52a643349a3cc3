// planck: the library's kernels from the command line.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "tools/planck/commands.h"

namespace planck::cli {

int bad_input(std::string_view command, std::string_view message) {
  std::string line = fmt::format("planck{}{}: {}", command.empty() ? "" : " ", command, message);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  std::fprintf(stderr, "%s\n", line.c_str());
  return kBadInput;
}

namespace {

// What CLI11 found wrong with the command line; `first` is the word after planck.
int bad_command_line(const CLI::ParseError& error, const CLI::App& app, const std::string& first) {
  std::string command, all;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (known->get_name() == first) command = first;
    all += (all.empty() ? "" : ", ") + known->get_name();
  }
  if (command.empty() && !first.empty() && first[0] != '-')
    return bad_input("", fmt::format("no command is called {}; there are: {}", first, all));
  return bad_input(command, fmt::format("{}; see planck {}{}--help", error.what(), command,
                                        command.empty() ? "" : " "));
}

int run(int argc, char** argv) {
  CLI::App app(
      "Planck: training kernels that give the same bits on every run, thread count and device.\n"
      "Trains and quantizes, runs single ops on files, and holds its own guarantees on this "
      "machine.",
      "planck");
  app.set_version_flag("--version", "planck " PLANCK_VERSION);
  app.require_subcommand(0, 1);  // none: said below, after any unknown option
  app.get_formatter()->column_width(34);
  app.footer(
      "Examples:\n"
      "  planck demo                                     train, quantize, ship: a model in two "
      "minutes\n"
      "  planck inspect model.safetensors                what is in a checkpoint\n"
      "  planck quantize model.safetensors -o small.safetensors --scheme per-group --dtype s4\n"
      "  planck dequantize small.safetensors -o restored.safetensors\n\n"
      "Exit codes: 0 done; 1 a guarantee did not hold; 2 bad input, said in one line on standard "
      "error.\n"
      "`planck COMMAND --help` explains one command.");
  int exit_code = kOk;
  add_quantize(app, exit_code);
  add_dequantize(app, exit_code);
  add_inspect(app, exit_code);
  add_compare(app, exit_code);
  add_demo(app, exit_code);
  add_eval(app, exit_code);
  add_predict(app, exit_code);
  add_ops(app, exit_code);
  add_run(app, exit_code);
  add_verify(app, exit_code);
  add_bench(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return bad_command_line(e, app, argc > 1 ? argv[1] : "");
  }
  if (app.get_subcommands().empty())
    return bad_input("", "a command is required; see planck --help");
  return exit_code;
}

}  // namespace
}  // namespace planck::cli

int main(int argc, char** argv) {
  // A file size limit shall be an error with a message, not the end of the process.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  int exit_code = planck::cli::kBadInput;
  try {
    exit_code = planck::cli::run(argc, argv);
    if (std::fflush(stdout) != 0)
      return planck::cli::bad_input("", "cannot write to standard output");
  } catch (const std::bad_alloc&) {
    return planck::cli::bad_input("", "out of memory");
  } catch (const std::exception& e) {
    return planck::cli::bad_input("", e.what());
  }
  return exit_code;
}
