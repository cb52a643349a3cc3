#include "tools/planck/ops/op_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planck/core/cuda/architectures.h"
#include "planck/core/cuda/runtime.h"
#include "planck/plan/this_cpu.h"
#include "planck/verify/case_lists.h"
#include "tools/planck/ops/shape_ops.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

bool same_promise(const KernelStatus& a, const KernelStatus& b) {
  return a.guarantee.math == b.guarantee.math &&
         a.guarantee.accumulator == b.guarantee.accumulator &&
         a.guarantee.reproducibility == b.guarantee.reproducibility &&
         a.guarantee.max_ulp == b.guarantee.max_ulp && a.workspace == b.workspace;
}

std::string names(const std::vector<Dtype>& dtypes) {
  std::vector<std::string_view> texts;
  for (Dtype t : dtypes) texts.push_back(name(t));
  return fmt::format("{}", fmt::join(texts, " "));
}

// "f32 f16 → s8 u8" where the pairs are all of both, else each pair on its own.
std::string dtype_text(const std::vector<DtypePair>& pairs) {
  std::vector<Dtype> elements, auxes;
  const auto add = [](std::vector<Dtype>& list, Dtype t) {
    if (std::find(list.begin(), list.end(), t) == list.end()) list.push_back(t);
  };
  for (const DtypePair& p : pairs) {
    add(elements, p.element);
    if (p.aux) add(auxes, *p.aux);
  }
  if (auxes.empty()) return names(elements);
  if (elements.size() * auxes.size() == pairs.size())
    return fmt::format("{} × {}", names(elements), names(auxes));
  std::vector<std::string> each;
  for (const DtypePair& p : pairs)
    each.push_back(fmt::format("{}×{}", name(p.element), p.aux ? name(*p.aux) : ""));
  return fmt::format("{}", fmt::join(each, " "));
}

std::string_view device_text(DeviceKind device) {
  return device == DeviceKind::cpu ? "cpu" : "cuda";
}

std::string workspace_text(std::size_t bytes) {
  return bytes == 0 ? "none" : fmt::format("{} B", bytes);
}

// What this build has the kernel for: a row of one GPU's own instructions, for that one alone.
std::vector<std::string_view> architectures_of(const KernelStatus& kernel) {
  if (kernel.device != DeviceKind::cuda) return {};
  auto all = cuda::each_architecture(cuda::architectures());
  if (kernel.capability > 0)
    std::erase_if(all, [own = fmt::format("{}a", kernel.capability)](std::string_view one) {
      return !one.starts_with(own);
    });
  return all;
}

Result<OpRow> op_row(std::string_view family, const OpEntry& entry) {
  struct Collected {
    KernelStatus status;
    std::vector<DtypePair> dtypes;
  };
  std::vector<Collected> collected;
  for (const DtypePair& dtypes : entry.dtypes) {
    const auto example = verify::example_case(entry.info->name, dtypes, kExampleShape);
    if (!example)
      return fail(ErrorCode::invalid_problem, fmt::format("{}: no example case", entry.info->name));
    auto problem = verify::parse_problem(all_ops(), *example);
    if (!problem) return tl::unexpected(problem.error());
    for (const KernelStatus& status : (*problem)->kernels()) {
      if (!status.reject.empty() && !is_about_this_cpu(status.reject)) continue;
      auto it = std::find_if(collected.begin(), collected.end(), [&](const Collected& c) {
        return c.status.name == status.name && same_promise(c.status, status);
      });
      if (it == collected.end()) it = collected.insert(it, {status, {}});
      it->dtypes.push_back(dtypes);
    }
  }
  // Rows of one kernel together, kernels in the order of the table.
  const auto first = [&](const Collected& c) {
    return std::find_if(
               collected.begin(), collected.end(),
               [&](const Collected& other) { return other.status.name == c.status.name; }) -
           collected.begin();
  };
  std::vector<std::pair<std::ptrdiff_t, const Collected*>> sorted;
  for (const Collected& c : collected) sorted.emplace_back(first(c), &c);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  OpRow row{family, entry.info, {}};
  for (const auto& [position, kernel] : sorted) {
    const Collected& c = *kernel;
    row.kernels.push_back({c.status.name, c.status.device, dtype_text(c.dtypes), c.status.guarantee,
                           c.status.workspace, architectures_of(c.status)});
  }
  return row;
}

// A line for each family: its name, and a link to each of its ops.
std::string op_index(const std::vector<OpRow>& ops) {
  std::string text = "| family | ops |\n|---|---|\n";
  std::string_view family;
  for (const OpRow& op : ops) {
    if (op.family != family)
      text += fmt::format("{}| {} | ", family.empty() ? "" : " |\n", op.family);
    else
      text += " · ";
    text += fmt::format("[{0}](#{0})", op.info->name);
    family = op.family;
  }
  return text + (ops.empty() ? "" : " |\n");
}

}  // namespace

Result<std::vector<OpRow>> op_table(const std::function<bool(std::string_view)>& wanted) {
  std::vector<OpRow> rows;
  for (const OpFamily& family : op_families())
    for (const OpEntry& entry : family.ops) {
      if (!wanted(entry.info->name)) continue;
      auto row = op_row(family.name, entry);
      if (!row) return tl::unexpected(row.error());
      rows.push_back(std::move(*row));
    }
  for (const OpInfo& info : shape_ops())
    if (wanted(info.name)) rows.push_back({"shape", &info, {}});
  return rows;
}

std::string op_markdown(const std::vector<OpRow>& ops) {
  std::string text = fmt::format(
      "# Ops\n\nWritten by `planck ops --markdown`; CI fails where it is stale. Workspace is for a "
      "tensor of shape {}.\n"
      "Kernels are listed as selected: the first that runs on the device and meets the caller's "
      "preference.\n"
      "[numerics.md](numerics.md) says what the promises mean.\n\n{}",
      to_string(kExampleShape), op_index(ops));
  for (const OpRow& op : ops) {
    text += fmt::format("\n## {}\n\n    {}\n\n| operand | role |\n|---|---|\n", op.info->name,
                        op.info->formula);
    for (const OperandInfo& o : op.info->operands)
      text += fmt::format("| {} | {}{}{} |\n", o.name, o.optional ? "optional " : "",
                          o.role == Role::input ? "input"
                          : o.updates           ? "output, and input where it is added to"
                                                : "output",
                          o.refusal.empty() ? "" : ", refused by `planck run` where not 0");
    if (!op.info->attributes.empty()) text += "\n| attribute | default | |\n|---|---|---|\n";
    for (const AttributeInfo& a : op.info->attributes)
      text += fmt::format("| {} | {} | {} |\n", a.name, a.default_value, a.help);
    text += fmt::format("\n{}{}\n", op.info->broadcasts ? "Inputs broadcast. " : "",
                        is_differentiable(*op.info) ? "Differentiable." : "No gradient.");
    if (op.kernels.empty()) {
      text += "\nEvery dtype, bits kept; no kernel and no workspace.\n";
      continue;
    }
    text +=
        "\n| kernel | dtypes | math | sums | reproducible | max ulp | workspace "
        "|\n|---|---|---|---|---|---|---|\n";
    for (const KernelRow& k : op.kernels)
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", k.kernel, k.dtypes,
                          name(k.guarantee.math), name(k.guarantee.accumulator),
                          name(k.guarantee.reproducibility), k.guarantee.max_ulp,
                          workspace_text(k.workspace));
  }
  return text;
}

std::string op_json(const std::vector<OpRow>& ops) {
  auto all = nlohmann::ordered_json::array();
  for (const OpRow& op : ops) {
    nlohmann::ordered_json o = {{"op", op.info->name},
                                {"category", name(op.info->category)},
                                {"formula", op.info->formula},
                                {"broadcasts", op.info->broadcasts},
                                {"differentiable", is_differentiable(*op.info)},
                                {"operands", nlohmann::ordered_json::array()},
                                {"attributes", nlohmann::ordered_json::array()},
                                {"kernels", nlohmann::ordered_json::array()}};
    for (const OperandInfo& operand : op.info->operands)
      o["operands"].push_back({{"name", operand.name},
                               {"role", operand.role == Role::input ? "input" : "output"},
                               {"optional", operand.optional},
                               {"updates", operand.updates}});
    for (const AttributeInfo& a : op.info->attributes)
      o["attributes"].push_back({{"name", a.name}, {"default", a.default_value}, {"help", a.help}});
    for (const KernelRow& k : op.kernels) {
      o["kernels"].push_back({{"kernel", k.kernel},
                              {"device", device_text(k.device)},
                              {"dtypes", k.dtypes},
                              {"math", name(k.guarantee.math)},
                              {"accumulator", name(k.guarantee.accumulator)},
                              {"reproducibility", name(k.guarantee.reproducibility)},
                              {"max_ulp", k.guarantee.max_ulp},
                              {"workspace_bytes", k.workspace},
                              {"workspace_shape", std::vector<std::int64_t>(kExampleShape.begin(),
                                                                            kExampleShape.end())}});
      if (k.device == DeviceKind::cuda) o["kernels"].back()["architectures"] = k.architectures;
    }
    all.push_back(std::move(o));
  }
  return json_text(all);
}

std::string op_text(const std::vector<OpRow>& ops) {
  using enum Table::Align;
  Table table({{"op"},
               {"kernel"},
               {"dtypes"},
               {"reproducible", left, 1},
               {"max ulp", right},
               {"workspace", left, 2}});
  for (const OpRow& op : ops) {
    for (const KernelRow& k : op.kernels)
      table.add({std::string(op.info->name), std::string(k.kernel), k.dtypes,
                 std::string(name(k.guarantee.reproducibility)),
                 fmt::format("{}", k.guarantee.max_ulp), workspace_text(k.workspace)});
    if (op.kernels.empty())
      table.add({std::string(op.info->name), "-", "every dtype", "bits kept", "0", "none"});
  }
  return table.text() +
         fmt::format(
             "workspace for a tensor of shape {}; `planck run --list OP` shows operands and "
             "attributes\n{}\n",
             to_string(kExampleShape),
             cuda::built() ? fmt::format("CUDA kernels for {}", cuda::architectures())
                           : "this build has no CUDA kernels");
}

std::string op_usage(const OpInfo& info) {
  std::string text = fmt::format("{}\n  {}\n", info.name, info.formula);
  for (Role role : {Role::input, Role::output}) {
    text += role == Role::input ? "inputs (tensors of --in)\n" : "outputs (tensors of --out)\n";
    for (const OperandInfo& o : info.operands)
      if (o.role == role || (role == Role::input && o.updates))
        text += fmt::format("  {}{}\n", o.name,
                            o.optional || (role == Role::input && o.updates) ? " (optional)" : "");
  }
  text += info.attributes.empty() ? "" : "attributes (--set KEY=VALUE)\n";
  for (const AttributeInfo& a : info.attributes)
    text +=
        fmt::format("  {:<12} {}{}\n", a.name, a.help,
                    a.default_value.empty() ? "" : fmt::format(" (default {})", a.default_value));
  if (info.broadcasts) text += "inputs of other shapes broadcast\n";
  text += is_differentiable(info) ? "gradients (--grad): grad.NAME of every float input\n"
                                  : "it has no gradient\n";
  return text;
}

}  // namespace planck::cli
