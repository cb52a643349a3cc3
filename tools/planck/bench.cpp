// planck bench: every plan against this machine's bandwidth, measured in the same run.
#include "planck/verify/bench/bench.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "planck/core/cpu/target.h"
#include "planck/core/cuda/runtime.h"
#include "planck/ops/ops.h"
#include "tools/planck/commands.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/filter.h"
#include "tools/planck/print/progress.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct BenchOptions {
  DeviceOption device;
  std::string filter;
  double min_seconds = 0.5;
  bool json = false, list = false;
};

std::string target_text(const verify::BenchRow& r, bool on_cuda) {
  if (r.call) return "";
  if (!on_cuda || r.flops > 0) return r.cpu_share > 0 ? fmt::format(">= {:.2f}", r.cpu_share) : "";
  return r.aim_ms > 0 ? fmt::format("<= {:.3f} ms on an H200", r.aim_ms) : "";
}

std::string text_of(const std::vector<verify::BenchRow>& rows, bool on_cuda) {
  using Align = Table::Align;
  Table streams({{"op"},
                 {"dtypes"},
                 {"shape"},
                 {"detail"},
                 {"kernel"},
                 {"ms", Align::right},
                 {"GB/s", Align::right},
                 {"ceiling", Align::right},
                 {"ratio", Align::right},
                 {"target"}});
  Table calls({{"op"},
               {"dtypes"},
               {"shape"},
               {"kernel"},
               {"ns per call", Align::right},
               {"above the kernel", Align::right}});
  Table products({{"op"},
                  {"dtypes"},
                  {"shape"},
                  {"detail"},
                  {"kernel"},
                  {"ms", Align::right},
                  {"GFLOP/s", Align::right},
                  {"peer"},
                  {"GFLOP/s", Align::right},
                  {"ratio", Align::right},
                  {"target"}});
  bool any_call = false, any_stream = false, any_product = false;
  for (const verify::BenchRow& r : rows) {
    const std::string kernel(r.kernel);
    if (r.call) {
      any_call = true;
      calls.add({r.op, r.dtypes, r.shape, kernel, fmt::format("{:.0f}", r.seconds * 1e9),
                 fmt::format("{:.0f}", r.overhead_seconds * 1e9)});
    } else if (r.flops > 0) {
      any_product = true;
      const bool peer = r.ceiling_seconds > 0;
      products.add(
          {r.op, r.dtypes, r.shape, r.detail, kernel, fmt::format("{:.3f}", r.seconds * 1e3),
           fmt::format("{:.1f}", r.flops / r.seconds * 1e-9), std::string(r.ceiling_variant),
           peer ? fmt::format("{:.1f}", r.flops / r.ceiling_seconds * 1e-9) : "",
           peer ? fmt::format("{:.2f}", r.ratio) : "", target_text(r, on_cuda)});
    } else {
      any_stream = true;
      streams.add({r.op, r.dtypes, r.shape, r.detail, kernel,
                   fmt::format("{:.3f}", r.seconds * 1e3),
                   fmt::format("{:.1f}", r.bandwidth() * 1e-9),
                   fmt::format("{:.1f}", r.ceiling_bandwidth() * 1e-9),
                   fmt::format("{:.2f}", r.ratio), target_text(r, on_cuda)});
    }
  }
  std::string text;
  for (const auto& [any, table] : {std::pair{any_stream, &streams},
                                   std::pair{any_product, &products}, std::pair{any_call, &calls}})
    if (any) text += (text.empty() ? "" : "\n") + table->text();
  return text;
}

nlohmann::ordered_json json_of(const verify::BenchRow& r) {
  nlohmann::ordered_json o = {{"op", r.op},          {"dtypes", r.dtypes}, {"shape", r.shape},
                              {"detail", r.detail},  {"kernel", r.kernel}, {"bytes", r.bytes},
                              {"seconds", r.seconds}};
  if (r.flops > 0) o["flops"] = r.flops;
  if (r.call) {
    o["overhead_seconds"] = r.overhead_seconds;
  } else {
    o["ceiling"] = r.ceiling_variant;
    o["ceiling_seconds"] = r.ceiling_seconds;
    o["ratio"] = r.ratio;
    if (r.aim_ms > 0) o["aim_ms_h200"] = r.aim_ms;
    if (r.cpu_share > 0) o["aim_ratio_cpu"] = r.cpu_share;
  }
  return o;
}

Result<void> bench(const BenchOptions& options) {
  const auto stream = options.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  const auto filter = parse_filter(options.filter);
  if (!filter) return tl::unexpected(filter.error());
  const bool on_cuda = stream->device().kind == DeviceKind::cuda;
  std::vector<verify::BenchCase> cases = verify::all_benches(stream->device().kind);
  std::erase_if(cases, [&](const auto& c) { return !std::regex_search(name(c), *filter); });
  if (auto ok = refuse_nothing(cases.empty(), options.filter, "benchmarks"); !ok) return ok;
  if (options.list) {
    for (const auto& c : cases) print("{}\n", name(c));
    return {};
  }
  const InterruptHint hint("bench",
                           "--filter does a part of it, --min-time takes less for each row");
  std::vector<verify::BenchRow> rows;
  {
    Progress progress(cases.size(), Progress::Unit::steps);
    for (std::size_t k = 0; k < cases.size(); ++k) {
      progress.reach(k, cases.size(), cases[k].test_case.op);
      auto row = verify::run_bench(all_ops(), cases[k], *stream, options.min_seconds);
      if (!row) return tl::unexpected(row.error());
      rows.push_back(std::move(*row));
    }
  }
  const std::string machine =
      on_cuda ? cuda::device_name(stream->device().ordinal).value_or("")
              : fmt::format("{}, {} threads", cpu_target_name(), stream->threads());
  if (options.json) {
    nlohmann::ordered_json o = {{"device", to_string(stream->device())}, {"machine", machine}};
    o["rows"] = nlohmann::ordered_json::array();
    for (const verify::BenchRow& r : rows) o["rows"].push_back(json_of(r));
    print_json(o);
  } else {
    print("{}\n{}", machine, text_of(rows, on_cuda));
  }
  return {};
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      app.add_subcommand("bench", "Time every plan against this machine's bandwidth");
  command->footer(
      "Examples:\n"
      "  planck bench --threads 2                      ratios to a bare copy of the same bytes\n"
      "  planck bench --device cuda --filter bf16      some rows only (--list names them)\n"
      "  planck bench --json                           for machines");
  options->device.add_to(*command);
  command->add_option("--filter", options->filter,
                      "Only rows whose name (--list) this regular expression finds");
  command->add_option("--min-time", options->min_seconds, "Seconds to measure a row at least")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--list", options->list, "Show the rows' names and stop");
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &exit_code] {
    const auto done = bench(*options);
    exit_code = done ? kOk : bad_input("bench", done.error());
  });
}

}  // namespace planck::cli
