// Work in a child process: a signal ends the child, and is reported with the case it happened in.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace planck::conformance {

// Of cases that were tried.
struct Counted {
  std::size_t taken = 0;     // those that ran
  std::size_t compared = 0;  // those whose values were compared with naive ones
};

struct IsolatedCase {
  // "" where all is well, else what is wrong. What is added to `counted` comes back.
  std::function<std::string(Counted& counted)> run;
  std::function<std::string()> text;  // its name in one line
};

struct IsolatedReport {
  std::vector<std::string> failures;
  Counted counted = {};
};

// Runs all cases in order and returns a line for each that fails. After a signal, a fresh child
// goes on with the next case; a case that takes more than `seconds` counts as one that hangs.
IsolatedReport run_isolated(const std::vector<IsolatedCase>& cases, unsigned seconds);

}  // namespace planck::conformance
