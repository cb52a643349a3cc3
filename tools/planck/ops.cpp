// planck ops: every op with its kernels and what they promise.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tools/planck/checkpoint/name_pattern.h"
#include "tools/planck/commands.h"
#include "tools/planck/ops/op_table.h"
#include "tools/planck/ops/shape_ops.h"
#include "tools/planck/print/console.h"

namespace planck::cli {

namespace {

struct OpsArguments {
  std::string pattern;
  bool json = false, markdown = false, names = false;
};

Result<std::string> list_ops(const OpsArguments& a) {
  std::optional<NamePattern> pattern;
  if (!a.pattern.empty()) {
    auto compiled = NamePattern::compile(a.pattern);
    if (!compiled)
      return fail(compiled.error().code, fmt::format("PATTERN {}", compiled.error().message));
    pattern = std::move(*compiled);
  }
  const auto wanted = [&](std::string_view op) { return !pattern || pattern->found_in(op); };
  if (a.names) {
    std::string text;
    for (const std::string_view op : op_names())
      if (wanted(op)) text += fmt::format("{}\n", op);
    if (!text.empty()) return text;
  } else {
    const auto table = op_table(wanted);
    if (!table) return tl::unexpected(table.error());
    if (!table->empty())
      return a.json ? op_json(*table) : a.markdown ? op_markdown(*table) : op_text(*table);
  }
  return fail(ErrorCode::invalid_problem,
              fmt::format("PATTERN {} matches no op; planck ops --names lists them", a.pattern));
}

}  // namespace

void add_ops(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<OpsArguments>();
  CLI::App* command =
      app.add_subcommand("ops", "List every op: kernels, dtypes, guarantees, workspace");
  command->footer(
      "Examples:\n"
      "  planck ops                       a table of every op\n"
      "  planck ops '^quantize'           of those whose names a regular expression is found in\n"
      "  planck ops --names               their names, one to a line\n"
      "  planck ops --markdown            the page docs/ops.md\n"
      "  planck ops --json                for machines");
  command->add_option("pattern", options->pattern, "Only names in which this is found");
  auto* json = command->add_flag("--json", options->json, "As JSON");
  auto* markdown = command->add_flag("--markdown", options->markdown, "As docs/ops.md");
  markdown->excludes(json);
  command->add_flag("--names", options->names, "The names alone")
      ->excludes(json)
      ->excludes(markdown);
  command->callback([options, &exit_code] {
    const auto text = list_ops(*options);
    if (text) options->json ? print_asked_for(*text) : print(*text);
    exit_code = text ? kOk : bad_input("ops", text.error());
  });
}

}  // namespace planck::cli
