// What a run of the demo found: as a table with its errors, in sentences, as JSON and as a page.
//
// Sentences are made of what was measured: they say that one model beats another where it does
// beyond the error of the test, and that it does not where it does not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/planck/digits/training.h"
#include "tools/planck/report/provenance.h"
#include "tools/planck/report/report.h"

namespace planck::cli {

struct DemoResults {
  digits::Outcome outcome;
  digits::RunOptions options;
  Provenance made;
  std::string data;               // its name
  std::int64_t trained_with = 0;  // pictures

  std::string table() const;
  // How errors are meant; training with quantization against rounding after it, for each integer
  // type; float against integer inference.
  std::vector<std::string> findings() const;
  nlohmann::ordered_json json() const;
  TrainingReport report() const;
};

// JSON for people too: lists of numbers are on one line each.
std::string readable(const nlohmann::ordered_json& json);

}  // namespace planck::cli
