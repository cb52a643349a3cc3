// planck verify: holds every guarantee on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "planck/core/cpu/target.h"
#include "planck/core/cuda/runtime.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/checks/sweep.h"
#include "planck/verify/checks/tensor_cores.h"
#include "planck/verify/cpu_targets.h"
#include "planck/verify/runner.h"
#include "tools/planck/commands.h"
#include "tools/planck/options/filter.h"
#include "tools/planck/print/progress.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct VerifyOptions {
  std::string device = "cpu", filter, cpu_target;
  std::vector<int> threads = {1, 2, 5};
  std::int64_t values = -1, products = -1;  // −1: the device's default
  std::uint64_t seed = 1;
  bool lengthy = false, only_values = false, only_products = false, json = false;
};

struct Findings {
  verify::Report report;
  verify::SweepReport sweep;
  verify::TensorCoreReport products;
  double seconds = 0;

  bool broken() const {
    return !report.failures.empty() || !sweep.failures.empty() || !products.failures.empty();
  }
};

// Values streamed unless said otherwise.
constexpr std::int64_t kCudaValues = 100'000'000, kCpuValues = 10'000'000;
// Outputs of tensor cores compared with their contract, of each dtype and instruction; alone, and
// beside everything else.
constexpr std::int64_t kOnlyProducts = 1'000'000'000, kProducts = 10'000'000;

using Wanted = std::function<bool(std::string_view)>;

Result<std::int64_t> products_of(const VerifyOptions& options, bool on_cuda) {
  if (!on_cuda && (options.only_products || options.products > 0))
    return fail(
        ErrorCode::invalid_problem,
        fmt::format("{} compares a GPU's tensor cores with their contract, --device is {}: "
                    "must be cuda",
                    options.only_products ? "--only-products" : "--products", options.device));
  if (options.only_products && options.products == 0)
    return fail(ErrorCode::invalid_problem, "--only-products with --products 0 compares nothing");
  if (options.products >= 0) return options.products;
  if (options.only_products) return kOnlyProducts;
  return on_cuda && !options.only_values ? kProducts : 0;
}

Result<verify::TensorCoreReport> verify_products(const VerifyOptions& options, std::int64_t outputs,
                                                 const Wanted& wanted) {
  constexpr std::size_t kParts = 1000;
  Progress progress(0, Progress::Unit::steps);
  return verify::compare_tensor_cores(
      {.device = Device::cuda(0),
       .outputs = outputs,
       .seed = options.seed,
       .wanted = wanted,
       .progress = [&](std::size_t done, std::size_t all, std::string_view line) {
         progress.reach(done * kParts / all, kParts, line);
       }});
}

Result<Findings> verify_device(const VerifyOptions& options) {
  const InterruptHint hint("verify", "--filter does a part of it");
  const auto begin = std::chrono::steady_clock::now();
  const bool on_cuda = options.device == "cuda";
  if (!on_cuda && options.device != "cpu")
    return fail(ErrorCode::invalid_problem,
                fmt::format("--device is {}, must be cpu or cuda", options.device));
  if (!options.cpu_target.empty())
    if (auto ok = verify::restrict_cpu_target(options.cpu_target); !ok)
      return tl::unexpected(ok.error());
  const auto filter = parse_filter(options.filter);
  if (!filter) return tl::unexpected(filter.error());
  const Wanted wanted = [&](std::string_view name) {
    return std::regex_search(std::string(name), *filter);
  };
  const auto products = products_of(options, on_cuda);
  if (!products) return tl::unexpected(products.error());
  verify::Options run;
  run.device = on_cuda ? Device::cuda(0) : Device::cpu();
  run.threads = options.threads;
  auto runner = verify::Runner::make(all_ops(), run);
  if (!runner) return tl::unexpected(runner.error());

  const auto size = options.lengthy ? verify::ListSize::lengthy : verify::ListSize::usual;
  std::vector<verify::Case> cases = verify::all_cases(size);
  std::erase_if(cases, [&](const auto& c) { return !wanted(c.id()); });
  if (options.only_products) cases.clear();
  const auto lines = verify::tensor_core_lines();
  const bool has_lines = *products > 0 && std::any_of(lines.begin(), lines.end(), wanted);
  if (auto ok = refuse_nothing(cases.empty() && !has_lines, options.filter,
                               options.only_products ? "products" : "cases");
      !ok)
    return tl::unexpected(ok.error());
  if (options.only_values) cases.clear();
  {
    Progress progress(cases.size(), Progress::Unit::steps);
    for (std::size_t k = 0; k < cases.size(); ++k) {
      progress.reach(k, cases.size(), cases[k].op);
      runner->run(cases[k]);
    }
  }
  Findings findings{runner->report(), {}, {}, 0};
  if (has_lines) {
    auto compared = verify_products(options, *products, wanted);
    if (!compared) return tl::unexpected(compared.error());
    findings.products = std::move(*compared);
    for (const auto& [reason, count] : findings.products.skipped)
      findings.report.skipped[reason] += count;
  }
  verify::SweepOptions sweep{
      .device = run.device, .values = options.values, .threads = 0, .wanted = {}, .progress = {}};
  if (sweep.values < 0) sweep.values = on_cuda ? kCudaValues : kCpuValues;
  if (options.only_products) sweep.values = 0;
  sweep.wanted = wanted;
  Progress progress(0, Progress::Unit::steps);
  sweep.progress = [&](std::size_t done, std::size_t all, std::string_view op) {
    progress.reach(done, all, op);
  };
  if (sweep.values > 0) {
    auto swept = verify::sweep(all_ops(), sweep);
    if (!swept) return tl::unexpected(swept.error());
    findings.sweep = std::move(*swept);
  }
  findings.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return findings;
}

std::string machine(const std::string& device) {
  std::string text =
      fmt::format("cpu {} with {} cores", cpu_target_name(), Stream::cpu().threads());
  if (device == "cuda") text += ", " + cuda::device_name(0).value_or("no CUDA device");
  return text;
}

std::string text_of(const verify::TensorCoreReport& products) {
  using Align = Table::Align;
  if (products.lines.empty()) return "";
  Table table({{"against the contract"}, {"outputs", Align::right}, {"differ", Align::right}});
  for (const verify::TensorCoreLine& line : products.lines)
    table.add({line.name, std::to_string(line.outputs), std::to_string(line.differing)});
  return table.text();
}

std::string text_of(const Findings& f, const VerifyOptions& options) {
  using Align = Table::Align;
  Table table({{"op"},
               {"cases", Align::right},
               {"kernels", Align::right},
               {"checks", Align::right},
               {"failures", Align::right}});
  const auto row = [&](const std::string& op, const verify::OpCounts& c) {
    table.add({op, std::to_string(c.cases), std::to_string(c.kernels), std::to_string(c.checks),
               std::to_string(c.failures)});
  };
  for (const auto& [op, counts] : f.report.ops) row(op, counts);
  table.add_rule();
  row("all", f.report.total());
  std::string text = options.only_products ? "" : table.text();
  text += text_of(f.products);
  if (!options.only_products)
    text += fmt::format(
        "streamed {} values to {} results in {} cases, {} runs compared, {} failures, digest "
        "{:016x}\n",
        f.sweep.values, f.sweep.outputs, f.sweep.cases, f.sweep.comparisons,
        f.sweep.failures.size(), f.sweep.digest);
  for (const auto& [reason, count] : f.report.skipped)
    text += fmt::format("skipped {}: {}\n", count, reason);
  constexpr std::size_t kShown = 40;
  std::size_t shown = 0;
  for (const auto* list : {&f.report.failures, &f.products.failures, &f.sweep.failures})
    for (const std::string& failure : *list)
      if (shown++ < kShown) text += fmt::format("FAILED {}\n", failure);
  if (shown > kShown) text += fmt::format("… and {} failures more\n", shown - kShown);
  text += fmt::format("{} on {} in {:.1f} s\n",
                      f.broken() ? "a guarantee is broken" : "every guarantee holds",
                      machine(options.device), f.seconds);
  return text;
}

nlohmann::ordered_json json_of(const Findings& f, const VerifyOptions& options) {
  nlohmann::ordered_json o = {{"device", options.device},
                              {"machine", machine(options.device)},
                              {"seconds", f.seconds},
                              {"holds", !f.broken()}};
  for (const auto& [op, c] : f.report.ops)
    o["ops"].push_back({{"op", op},
                        {"cases", c.cases},
                        {"kernels", c.kernels},
                        {"checks", c.checks},
                        {"failures", c.failures}});
  o["sweep"] = {{"values", f.sweep.values},
                {"outputs", f.sweep.outputs},
                {"cases", f.sweep.cases},
                {"comparisons", f.sweep.comparisons},
                {"digest", fmt::format("{:016x}", f.sweep.digest)}};
  for (const verify::TensorCoreLine& line : f.products.lines)
    o["products"].push_back(
        {{"name", line.name}, {"outputs", line.outputs}, {"differing", line.differing}});
  o["skipped"] = f.report.skipped;
  o["failures"] = f.report.failures;
  for (const auto* list : {&f.products.failures, &f.sweep.failures})
    for (const std::string& failure : *list) o["failures"].push_back(failure);
  return o;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "Hold every guarantee on this machine, bit for bit");
  command->footer(
      "Examples:\n"
      "  planck verify                                 the CPU, with 1, 2 and 5 threads\n"
      "  planck verify --device cuda                   CUDA against the CPU, bit for bit\n"
      "  planck verify --filter quantize_per_group     some ops only\n"
      "  planck verify --device cuda --only-products   10^9 outputs of tensor cores, for each "
      "dtype\n"
      "                                                and instruction, against their contract");
  command->add_option("--device", options->device, "cpu, or cuda: compared with the CPU")
      ->capture_default_str();
  command->add_option("--filter", options->filter,
                      "Only cases whose id this regular expression finds");
  command->add_option("--threads", options->threads, "Thread counts that must give the same bits")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--values", options->values,
                   "Values to stream; 100000000 on cuda, 10000000 on cpu unless set")
      ->check(CLI::NonNegativeNumber);
  auto* only_values =
      command->add_flag("--only-values", options->only_values, "Skip the case list and products");
  command
      ->add_option("--products", options->products,
                   "Outputs of tensor cores to compare with their contract, for each dtype and "
                   "instruction; cuda only: 10000000 unless set, 1000000000 with --only-products")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--only-products", options->only_products, "Skip the case list and the values")
      ->excludes(only_values);
  command->add_option("--seed", options->seed, "Where products are drawn")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option(
      "--cpu-target", options->cpu_target,
      "As if this CPU had no more than avx512, avx2 or baseline; the digest must not change");
  command->add_flag("--long", options->lengthy, "The long case list");
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &exit_code] {
    const auto findings = verify_device(*options);
    if (!findings) {
      exit_code = bad_input("verify", findings.error());
      return;
    }
    if (options->json)
      print_json(json_of(*findings, *options));
    else
      print(text_of(*findings, *options));
    exit_code = findings->broken() ? kBroken : kOk;
  });
}

}  // namespace planck::cli
