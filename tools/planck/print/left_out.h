// What a checkpoint of PyTorch's holds beside its tensors, as a line to print.
#pragma once

#include <fmt/format.h>

#include <string>

#include "planck/io/safetensors_header.h"
#include "planck/io/torch/pickle.h"

namespace planck::cli {

// `4 entries are no tensor and left out: "epoch", … and 2 more`, with a newline; empty for none.
inline std::string left_out_line(const LeftOut& left_out) {
  if (left_out.count == 0) return "";
  std::string names;
  for (const std::string& name : left_out.names)
    names += fmt::format("{}{}", names.empty() ? ": " : ", ", in_quotes(name));
  const auto more = left_out.count - static_cast<std::int64_t>(left_out.names.size());
  if (more > 0 && !names.empty()) names += fmt::format(" and {} more", more);
  return fmt::format(
      "{} no tensor and left out{}\n",
      left_out.count == 1 ? "1 entry is" : fmt::format("{} entries are", left_out.count), names);
}

}  // namespace planck::cli
