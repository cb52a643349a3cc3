// planck run: one op on the tensors of a file.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/planck/commands.h"
#include "tools/planck/ops/op_table.h"
#include "tools/planck/ops/run_op.h"
#include "tools/planck/ops/run_request.h"
#include "tools/planck/ops/shape_ops.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/output_option.h"
#include "tools/planck/print/console.h"

namespace planck::cli {

namespace {

struct RunOptions {
  std::string op, in, out, list;
  DeviceOption device;
  std::vector<std::string> settings, preferences;
  bool json = false, gradients = false, force = false;
};

std::string describe(const RunRequest& request, const RunOutcome& outcome, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json o = {{"op", request.op}, {"outputs", outcome.outputs}};
    if (outcome.sku) {
      const KernelSku& sku = *outcome.sku;
      const PrecisionGuarantee& g = sku.guarantee;
      o.update({{"kernel", sku.kernel},
                {"element", name(sku.element)},
                {"aux", nullptr},
                {"arch", sku.arch},
                {"device", sku.backend == DeviceKind::cpu ? "cpu" : "cuda"},
                {"workspace_bytes", outcome.workspace},
                {"math", name(g.math)},
                {"accumulator", name(g.accumulator)},
                {"reproducibility", name(g.reproducibility)},
                {"max_ulp", g.max_ulp},
                {"batch_invariant", g.batch_invariant}});
      if (sku.aux) o["aux"] = name(*sku.aux);
      if (sku.product) o["product"] = name(*sku.product);
    }
    return json_text(o, -1);
  }
  std::string text;
  if (outcome.sku) {
    const KernelSku& sku = *outcome.sku;
    const PrecisionGuarantee& g = sku.guarantee;
    text = fmt::format(
        "{} {} {}{}{} on {}, workspace {} B\npromise: {}, math {}, sums {}, at most {} ulp{}{}{}\n",
        sku.op, sku.kernel, name(sku.element), sku.aux ? " " : "", sku.aux ? name(*sku.aux) : "",
        sku.arch, outcome.workspace, name(g.reproducibility), name(g.math), name(g.accumulator),
        g.max_ulp, sku.product ? ", product " : "", sku.product ? name(*sku.product) : "",
        g.batch_invariant ? ", rows as they are alone" : "");
  }
  for (const std::string& output : outcome.outputs) text += output + "\n";
  return text;
}

Result<std::string> run(const RunOptions& options) {
  RunRequest request{options.op, options.in, options.out, {}, {}, options.gradients};
  auto attributes = parse_settings(options.settings);
  if (!attributes) return tl::unexpected(attributes.error());
  request.attributes = std::move(*attributes);
  const auto preference = parse_preference(options.preferences);
  if (!preference) return tl::unexpected(preference.error());
  request.preference = *preference;
  if (auto ok = check_output(options.in, options.out, options.force); !ok)
    return tl::unexpected(ok.error());
  const auto stream = options.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  const auto outcome = run_op(request, *stream);
  if (!outcome) return tl::unexpected(outcome.error());
  return describe(request, *outcome, options.json);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "Run one op, or its gradients, on the tensors of a safetensors file");
  command->footer(
      "The tensors of --in are named as the op's operands; --list OP shows them. Values of --set:\n"
      "  axis=-1        axes count from the front, or from the end\n"
      "  stride=2x1     pairs and lists: 2x1 or 2,1; one number for both of a pair\n"
      "  value=0.5      numbers: 3, -0.5, 1e-5, inf, nan; truth values: true, false\n"
      "Inputs broadcast where the op does. Any tensor of the file may lie anywhere.\n\n"
      "--grad writes grad.NAME, the gradient of each float input, beside the outputs. --in may "
      "hold\n"
      "grad.NAME, the cotangents of outputs; without any, the first float output gets ones.\n\n"
      "Examples:\n"
      "  planck run --list quantize_per_channel        its inputs, outputs and attributes\n"
      "  planck run quantize_per_channel --in in.safetensors --out out.safetensors \\\n"
      "      --set axis=0 --set dtype=s8               in.safetensors holds x, scale, zero_point\n"
      "  planck run softmax --in x.safetensors --out y.safetensors --set axis=-1 --grad\n"
      "  planck run split --in x.safetensors --out pieces.safetensors --set sizes=2,3 axis=1");
  command->add_option("op", options->op, "The op, as in `planck ops`");
  command->add_option("--in", options->in,
                      "Safetensors file with the inputs; s4 and u4 are U8, two to a byte");
  command->add_option("--out", options->out, "Safetensors file for the outputs");
  add_force(*command, options->force);
  command
      ->add_option("--set", options->settings, "KEY=VALUE…: attributes of the op; may be repeated")
      ->take_all();
  command->add_flag("--grad", options->gradients, "Also the gradients of the float inputs");
  command
      ->add_option("--prefer", options->preferences,
                   "kernel=NAME, at_least=RUNG or max_workspace=BYTES")
      ->expected(1)
      ->take_all();
  options->device.add_to(*command);
  command->add_option("--list", options->list, "Show the operands and attributes of an op");
  command->add_flag("--json", options->json, "Print kernel and promise as JSON");
  command->callback([options, &exit_code] {
    if (!options->list.empty()) {
      const auto info = find_op_info(options->list);
      if (info) print(op_usage(**info));
      exit_code = info ? kOk : bad_input("run", info.error());
      return;
    }
    if (options->op.empty() || options->in.empty() || options->out.empty()) {
      exit_code = bad_input("run", "needs OP, --in FILE and --out FILE");
      return;
    }
    const auto text = run(*options);
    if (text) options->json ? print_asked_for(*text) : print(*text);
    exit_code = text ? kOk : bad_input("run", text.error());
  });
}

}  // namespace planck::cli
