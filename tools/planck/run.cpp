// planck run: one op on the tensors of a file.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "planck/io/safetensors.h"
#include "planck/ops/ops.h"
#include "tools/planck/commands.h"
#include "tools/planck/device_option.h"
#include "tools/planck/ops/op_table.h"
#include "tools/planck/ops/run_request.h"

namespace planck::cli {

namespace {

struct RunOptions {
  std::string op, in, out, list;
  DeviceOption device;
  std::vector<std::string> settings, preferences;
  bool json = false;
};

// The tensors of the file as inputs of the op. Where the attribute dtype is s4 or u4, a tensor of
// U8 holds pairs.
Result<InputSpecs> input_specs(const SafetensorsFile& file, const Attributes& attributes) {
  std::optional<Dtype> packed;
  if (const auto it = attributes.find("dtype"); it != attributes.end())
    if (const auto dtype = parse_dtype(it->second); dtype && is_packed(*dtype)) packed = dtype;
  InputSpecs specs;
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto view = file.view(entry);
    if (!view) return tl::unexpected(view.error());
    InputSpec spec{view->dtype, view->shape};
    if (packed && spec.dtype == Dtype::u8 && spec.shape.rank() > 0) {
      spec.dtype = *packed;
      spec.shape[spec.shape.rank() - 1] *= 2;
    }
    specs.emplace(entry.name, spec);
  }
  return specs;
}

Result<void> write_outputs(const std::string& path, const OpInfo& info,
                           const std::vector<OwnedTensor>& tensors, const Stream& stream) {
  std::vector<SafetensorsSpec> specs;
  std::vector<OwnedTensor> on_host;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (info.operands[i].role != Role::output || tensors[i].data() == nullptr) continue;
    auto spec = SafetensorsSpec::of(std::string(info.operands[i].name), tensors[i].dtype(),
                                    tensors[i].shape());
    if (!spec) return tl::unexpected(spec.error());
    auto copy = tensors[i].to(stream, Stream::cpu(1));
    if (!copy) return tl::unexpected(copy.error());
    specs.push_back(std::move(*spec));
    on_host.push_back(std::move(*copy));
  }
  auto writer = SafetensorsWriter::create(path, specs, {});
  if (!writer) return tl::unexpected(writer.error());
  for (std::size_t k = 0; k < specs.size(); ++k)
    if (auto ok = writer->write(specs[k].name, {on_host[k].as<std::byte>(), on_host[k].bytes()});
        !ok)
      return ok;
  return writer->commit();
}

// Some faults of the inputs are counted rather than refused; here they are refused.
Result<void> check_count(const OpInfo& info, std::size_t i, const OwnedTensor& tensor,
                         const Stream& stream) {
  const OperandInfo& operand = info.operands[i];
  if (operand.refusal.empty() || tensor.data() == nullptr) return {};
  const auto copy = tensor.to(stream, Stream::cpu(1));
  if (!copy) return tl::unexpected(copy.error());
  const std::int64_t count = *copy->as<std::int64_t>();
  if (count == 0) return {};
  return fail(ErrorCode::invalid_problem, fmt::format("{}: {} is {}, must be 0: {}", info.name,
                                                      operand.name, count, operand.refusal));
}

std::string describe(const KernelSku& sku, std::size_t workspace, bool as_json) {
  const PrecisionGuarantee& g = sku.guarantee;
  if (as_json) {
    nlohmann::ordered_json o = {{"op", sku.op},
                                {"kernel", sku.kernel},
                                {"element", name(sku.element)},
                                {"aux", nullptr},
                                {"arch", sku.arch},
                                {"device", sku.backend == DeviceKind::cpu ? "cpu" : "cuda"},
                                {"workspace_bytes", workspace},
                                {"math", name(g.math)},
                                {"accumulator", name(g.accumulator)},
                                {"reproducibility", name(g.reproducibility)},
                                {"max_ulp", g.max_ulp}};
    if (sku.aux) o["aux"] = name(*sku.aux);
    return o.dump() + "\n";
  }
  return fmt::format(
      "{} {} {}{}{} on {}, workspace {} B\npromise: {}, math {}, sums {}, at most {} ulp\n", sku.op,
      sku.kernel, name(sku.element), sku.aux ? " " : "", sku.aux ? name(*sku.aux) : "", sku.arch,
      workspace, name(g.reproducibility), name(g.math), name(g.accumulator), g.max_ulp);
}

Result<std::string> run(const RunOptions& options) {
  const OpEntry* entry = find_op(all_ops(), options.op);
  if (entry == nullptr)
    return fail(ErrorCode::invalid_problem, fmt::format("no op is called {}", options.op));
  const auto attributes = parse_settings(options.settings);
  if (!attributes) return tl::unexpected(attributes.error());
  const auto preference = parse_preference(options.preferences);
  if (!preference) return tl::unexpected(preference.error());
  const auto stream = options.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  const auto file = SafetensorsFile::open(options.in);
  if (!file) return tl::unexpected(file.error());
  const auto inputs = input_specs(*file, *attributes);
  if (!inputs) return tl::unexpected(inputs.error());
  const auto problem = parse_problem(all_ops(), options.op, *attributes, *inputs);
  if (!problem) return tl::unexpected(problem.error());
  const auto plan = (*problem)->select(*stream, *preference);
  if (!plan) return tl::unexpected(plan.error());

  const OpInfo& info = *entry->info;
  const std::vector<OperandSpec> specs = (*problem)->specs();
  std::vector<OwnedTensor> tensors(specs.size());
  Operands operands{};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool input = info.operands[i].role == Role::input;
    const auto given = inputs->find(info.operands[i].name);
    const bool updated = info.operands[i].updates && given != inputs->end();
    if (input ? given == inputs->end() : !specs[i].used) continue;
    auto tensor = input || updated ? file->load(*stream, **file->find(info.operands[i].name))
                                   : OwnedTensor::empty(*stream, specs[i].dtype, specs[i].shape);
    if (!tensor) return tl::unexpected(tensor.error());
    tensors[i] = std::move(*tensor);
    operands[i] = tensors[i].view();
    if (!input && !updated) continue;
    operands[i].dtype = given->second.dtype;
    operands[i].shape = given->second.shape;
    operands[i].strides = row_major(given->second.shape);
  }
  const auto workspace = allocate(*stream, (*plan)->workspace_size());
  if (!workspace) return tl::unexpected(workspace.error());
  if (auto ok = (*plan)->run(*stream, {workspace->data(), workspace->bytes()}, operands); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = stream->synchronize(); !ok) return tl::unexpected(ok.error());
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (auto ok = check_count(info, i, tensors[i], *stream); !ok) return tl::unexpected(ok.error());
  if (auto ok = write_outputs(options.out, info, tensors, *stream); !ok)
    return tl::unexpected(ok.error());
  return describe((*plan)->sku(), (*plan)->workspace_size(), options.json);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run",
                                         "Run one op on the tensors of a safetensors file, named "
                                         "as its operands (--list OP shows them)");
  command->footer(
      "Examples:\n"
      "  planck run --list quantize_per_channel        its inputs, outputs and attributes\n"
      "  planck run quantize_per_channel --in in.safetensors --out out.safetensors \\\n"
      "      --set axis=0 --set dtype=s8               in.safetensors holds x, scale, zero_point\n"
      "  planck run dynamic_quantize_per_token --in x.safetensors --out q.safetensors --json");
  command->add_option("op", options->op, "The op, as in `planck ops`");
  command->add_option("--in", options->in,
                      "Safetensors file with the inputs; s4 and u4 are U8, two to a byte");
  command->add_option("--out", options->out, "Safetensors file for the outputs");
  command
      ->add_option("--set", options->settings, "KEY=VALUE…: attributes of the op; may be repeated")
      ->take_all();
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
      const OpEntry* entry = find_op(all_ops(), options->list);
      if (entry != nullptr) fmt::print("{}", op_usage(*entry->info));
      exit_code = entry != nullptr
                      ? kOk
                      : bad_input("run", fmt::format("no op is called {}", options->list));
      return;
    }
    if (options->op.empty() || options->in.empty() || options->out.empty()) {
      exit_code = bad_input("run", "needs OP, --in FILE and --out FILE");
      return;
    }
    const auto text = run(*options);
    if (text) fmt::print("{}", *text);
    exit_code = text ? kOk : bad_input("run", text.error());
  });
}

}  // namespace planck::cli
