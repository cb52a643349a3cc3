#include "tools/planck/ops/run_request.h"

#include <fmt/format.h>

namespace planck::cli {

namespace {

Result<std::pair<std::string_view, std::string_view>> split(std::string_view option,
                                                            std::string_view text) {
  const auto at = text.find('=');
  if (at == std::string_view::npos || at == 0)
    return fail(ErrorCode::invalid_problem, fmt::format("{} {}: must be KEY=VALUE", option, text));
  return std::pair{text.substr(0, at), text.substr(at + 1)};
}

Result<std::size_t> whole_number(std::string_view option, std::string_view text) {
  const auto value = parse_whole(text);
  if (!value || *value < 0)
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: {} is not a whole number of at least 0", option, text));
  return static_cast<std::size_t>(*value);
}

}  // namespace

Result<Attributes> parse_settings(const std::vector<std::string>& settings) {
  Attributes attributes;
  for (const std::string& setting : settings) {
    const auto pair = split("--set", setting);
    if (!pair) return tl::unexpected(pair.error());
    if (!attributes.emplace(pair->first, pair->second).second)
      return fail(ErrorCode::invalid_problem, fmt::format("--set {}: is given twice", pair->first));
  }
  return attributes;
}

Result<PlanPreference> parse_preference(const std::vector<std::string>& settings) {
  PlanPreference preference;
  for (const std::string& setting : settings) {
    const auto pair = split("--prefer", setting);
    if (!pair) return tl::unexpected(pair.error());
    const auto& [key, value] = *pair;
    if (key == "kernel") {
      preference.kernel = value;
    } else if (key == "max_workspace") {
      const auto bytes = whole_number("--prefer max_workspace", value);
      if (!bytes) return tl::unexpected(bytes.error());
      preference.max_workspace_bytes = *bytes;
    } else if (key == "at_least") {
      bool known = false;
      for (auto rung :
           {Reproducibility::none, Reproducibility::run_to_run, Reproducibility::cross_device}) {
        if (name(rung) != value) continue;
        preference.at_least = rung;
        known = true;
      }
      if (!known)
        return fail(
            ErrorCode::invalid_problem,
            fmt::format("--prefer at_least={}: must be none, run_to_run or cross_device", value));
    } else {
      return fail(ErrorCode::invalid_problem,
                  fmt::format("--prefer {}: must be kernel, at_least or max_workspace", key));
    }
  }
  return preference;
}

}  // namespace planck::cli
