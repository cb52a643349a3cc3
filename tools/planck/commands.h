// The subcommands of `planck`, one file each: add_NAME declares its options on the app and, when it
// is called, leaves its exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

#include "planck/core/result.h"
#include "tools/planck/exit_codes.h"

namespace planck::cli {

void add_ops(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_allreduce(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_dequantize(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);

// Prints `planck COMMAND: message` as one line on standard error and returns kBadInput.
int bad_input(std::string_view command, std::string_view message);
inline int bad_input(std::string_view command, const Error& error) {
  return bad_input(command, error.message);
}

}  // namespace planck::cli
