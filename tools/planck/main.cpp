// planck: the library's kernels from the command line.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "planck/core/cuda/runtime.h"
#include "planck/plan/nearest_name.h"
#include "tools/planck/commands.h"
#include "tools/planck/options/strict_numbers.h"
#include "tools/planck/print/console.h"

namespace planck::cli {

int bad_input(std::string_view command, std::string_view message) {
  std::string line = fmt::format("planck{}{}: {}", command.empty() ? "" : " ", command, message);
  std::replace(line.begin(), line.end(), '\n', ' ');  // of the library that reads the command line
  std::fprintf(stderr, "%s\n", printable(line).c_str());
  return kBadInput;
}

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The options of a command and of all commands, as they are typed: --force, -o.
std::vector<std::string> options_of(const CLI::App& app, const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* from : {&app, command})
    for (const CLI::Option* option :
         from == nullptr ? std::vector<const CLI::Option*>{} : from->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  return names;
}

// What CLI11 found wrong with the command line, and what may have been meant.
int bad_command_line(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = nullptr;
  std::vector<std::string_view> all;
  std::string first;  // the word that should be a command
  for (int i = argc - 1; i > 0; --i)
    if (argv[i][0] != '-' && argv[i][0] != 0) first = argv[i];
  for (const CLI::App* known : commands_of(app)) {
    if (known->get_name() == first) command = known;
    all.push_back(known->get_name());
  }
  if (command == nullptr && !first.empty())
    return bad_input("", fmt::format("no command is called {}{}; there are: {}", first,
                                     did_you_mean(first, all), fmt::join(all, ", ")));
  std::string hint;
  const auto names = options_of(app, command);
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (int i = 1; i < argc && hint.empty(); ++i) {
    const std::string_view word =
        std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (word.starts_with("--") && std::find(known.begin(), known.end(), word) == known.end())
      hint = did_you_mean(word, known);
  }
  const std::string name = command == nullptr ? "" : command->get_name();
  return bad_input(name, fmt::format("{}{}; see planck {}{}--help", error.what(), hint, name,
                                     name.empty() ? "" : " "));
}

// -v: what a run cost, on standard error.
void say_costs(std::chrono::steady_clock::time_point begin) {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  std::fprintf(stderr,
               "planck " PLANCK_VERSION ": %.2f s, %.2f s of CPU, %.0f MB of memory at most\n",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               seconds(usage.ru_utime) + seconds(usage.ru_stime),
               static_cast<double>(usage.ru_maxrss) / 1024);
}

void add_help(CLI::App& app, int& exit_code) {
  const auto about = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Explain a command, or all of them");
  command->add_option("command", *about, "Which one");
  command->footer("Examples:\n  planck help quantize\n  planck help");
  command->callback([&app, about, &exit_code] {
    std::vector<std::string_view> all;
    for (const CLI::App* known : commands_of(app)) {
      all.push_back(known->get_name());
      if (known->get_name() == *about) return print(known->help("planck"));
    }
    if (about->empty())  // app.help() would explain the command that is running
      return print(app.get_formatter()->make_help(&app, "planck", CLI::AppFormatMode::Normal));
    exit_code = bad_input("help", fmt::format("no command is called {}{}; there are: {}", *about,
                                              did_you_mean(*about, all), fmt::join(all, ", ")));
  });
}

int run(int argc, char** argv) {
  CLI::App app(
      "Planck: training kernels that give the same bits on every run, thread count and device.\n"
      "Trains and quantizes, runs single ops on files, and holds its own guarantees on this "
      "machine.",
      "planck");
  bool quiet = false, verbose = false;
  app.set_version_flag("-V,--version", [] {
    return fmt::format("planck " PLANCK_VERSION ", {}",
                       cuda::built() ? fmt::format("CUDA kernels for {}", cuda::architectures())
                                     : "without CUDA kernels");
  });
  auto* quiet_flag =
      app.add_flag("-q,--quiet", quiet, "Say nothing but errors, and JSON that is asked for");
  app.add_flag("-v,--verbose", verbose, "Also say what it took: seconds, CPU, memory")
      ->excludes(quiet_flag);
  app.require_subcommand(0, 1);  // none: said below, after any unknown option
  app.get_formatter()->column_width(34);
  app.footer(
      "Examples:\n"
      "  planck demo                                     train, quantize, ship: a model in two "
      "minutes\n"
      "  planck inspect model.safetensors                what is in a checkpoint\n"
      "  planck quantize model.safetensors -o small.safetensors --scheme per-group --dtype s4\n"
      "  planck dequantize small.safetensors -o restored.safetensors\n"
      "  planck completion bash > ~/.local/share/bash-completion/completions/planck\n\n"
      "Exit codes: 0 done; 1 a guarantee did not hold; 2 bad input, said in one line on standard "
      "error;\n"
      "3 the same, after an output was put in place.\n"
      "`planck help COMMAND` explains one command.");
  int exit_code = kOk;
  app.parse_complete_callback([&] {
    verbosity() = quiet ? Verbosity::quiet : verbose ? Verbosity::verbose : Verbosity::usual;
  });
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
  add_allreduce(app, exit_code);
  add_completion(app, exit_code);
  add_help(app, exit_code);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();  // -q and -v may come after the command
    read_numbers_strictly(*command);
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return bad_command_line(e, app, argc, argv);
  }
  if (app.get_subcommands().empty())
    return bad_input("", "a command is required; see planck --help");
  if (verbose) say_costs(begin);
  return exit_code;
}

}  // namespace
}  // namespace planck::cli

int main(int argc, char** argv) {
  using namespace planck;
  cli::handle_signals();
  int exit_code = cli::kBadInput;
  try {
    exit_code = cli::run(argc, argv);
    // What is longer than a buffer has failed before, and left nothing to flush.
    const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (lost && exit_code != cli::kBadInput) {
      const int said = cli::bad_input("", "cannot write to standard output");
      if (exit_code == cli::kOk) exit_code = said;  // a broken guarantee weighs more
    }
  } catch (const std::bad_alloc&) {
    exit_code = cli::bad_input("", "out of memory");
  } catch (const std::exception& e) {
    exit_code = cli::bad_input("", e.what());
  }
  // Whoever reads 2 may rely on it that every file is as it was.
  if (exit_code == cli::kBadInput && cli::outputs_in_place() > 0) return cli::kBadAfterOutput;
  return exit_code;
}
