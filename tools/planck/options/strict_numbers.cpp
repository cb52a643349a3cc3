#include "tools/planck/options/strict_numbers.h"

#include <fmt/format.h>

#include "planck/plan/attributes.h"

namespace planck::cli {

void read_numbers_strictly(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool whole = type.find("INT") != type.npos, number = type.find("FLOAT") != type.npos;
    if (!whole && !number) continue;
    // transform() runs before the checks that were added earlier, which convert the text.
    option->transform(CLI::Validator(
        [whole, name = option->get_name()](std::string& text) -> std::string {
          if (whole ? parse_whole(text).has_value() : parse_number(text).has_value()) return {};
          return fmt::format("{} is {}, must be a {}number", name, text, whole ? "whole " : "");
        },
        ""));
  }
}

}  // namespace planck::cli
