// Numbers of the command line, read as those of requests are (plan/attributes.h): the library that
// parses the options would take 012 for ten and 0x10 for sixteen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace planck::cli {

// Puts the check before every option whose value is a number.
void read_numbers_strictly(CLI::App& command);

}  // namespace planck::cli
