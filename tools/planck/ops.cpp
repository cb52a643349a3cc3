// planck ops: every registered op with its kernels and what they promise.
#include <fmt/format.h>

#include <memory>

#include "tools/planck/commands.h"
#include "tools/planck/ops/op_table.h"

namespace planck::cli {

void add_ops(CLI::App& app, int& exit_code) {
  struct Options {
    bool json = false, markdown = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("ops", "List every op: kernels, dtypes, guarantees, workspace");
  command->footer(
      "Examples:\n"
      "  planck ops                       a table of every op\n"
      "  planck ops --markdown            the page docs/ops.md\n"
      "  planck ops --json                for machines");
  auto* json = command->add_flag("--json", options->json, "As JSON");
  command->add_flag("--markdown", options->markdown, "As docs/ops.md")->excludes(json);
  command->callback([options, &exit_code] {
    const auto table = op_table();
    if (!table) {
      exit_code = bad_input("ops", table.error());
      return;
    }
    fmt::print("{}", options->json       ? op_json(*table)
                     : options->markdown ? op_markdown(*table)
                                         : op_text(*table));
    exit_code = kOk;
  });
}

}  // namespace planck::cli
