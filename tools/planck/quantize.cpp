// planck quantize: a checkpoint's weights as integers, with what it costs, tensor by tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/planck/checkpoint/checkpoint_quantizer.h"
#include "tools/planck/commands.h"
#include "tools/planck/device_option.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

struct QuantizeArguments {
  std::string in, out, scheme = "per-channel", dtype = "s8", include, exclude;
  int axis = 0, min_rank = 2;
  std::int64_t group = 128;
  bool symmetric = false, affine = false, json = false;
  DeviceOption device;
};

Result<void> read_pattern(const char* option, const std::string& text,
                          std::optional<NamePattern>& pattern) {
  if (text.empty()) return {};
  auto compiled = NamePattern::compile(text);
  if (!compiled)
    return fail(compiled.error().code, fmt::format("{} {}", option, compiled.error().message));
  pattern = std::move(*compiled);
  return {};
}

Result<QuantizeOptions> options_from(const QuantizeArguments& arguments) {
  QuantizeOptions options;
  options.scheme.scheme = arguments.scheme;
  std::replace(options.scheme.scheme.begin(), options.scheme.scheme.end(), '-', '_');
  options.scheme.axis = arguments.axis;
  options.scheme.group = arguments.group;
  options.scheme.dtype = *parse_dtype(arguments.dtype);
  options.scheme.symmetric = !arguments.affine;
  options.min_rank = arguments.min_rank;
  if (auto ok = read_pattern("--include", arguments.include, options.include); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = read_pattern("--exclude", arguments.exclude, options.exclude); !ok)
    return tl::unexpected(ok.error());
  return options;
}

nlohmann::json number_or_null(double value) {  // JSON has no infinity
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

void print_json(const QuantizeArguments& arguments, const CheckpointReport& report) {
  nlohmann::ordered_json j{{"input", arguments.in},
                           {"output", arguments.out},
                           {"file_bytes_before", report.file_bytes_before},
                           {"file_bytes_after", report.file_bytes_after},
                           {"tensors", nlohmann::ordered_json::array()}};
  for (const TensorReport& t : report.tensors) {
    nlohmann::ordered_json row{{"name", t.entry->name},          {"dtype", t.entry->type->text},
                               {"shape", t.entry->shape},        {"quantized", t.quantized()},
                               {"bytes_before", t.bytes_before}, {"bytes_after", t.bytes_after}};
    if (t.quantized()) {
      row["scheme"] = t.scheme;
      row["kernel"] = t.kernel;
      row["sqnr_db"] = number_or_null(t.error.sqnr_db());
      row["max_abs_error"] = number_or_null(t.error.max_abs);
      row["non_finite"] = t.error.non_finite;
    } else {
      row["kept"] = t.kept_reason;
    }
    j["tensors"].push_back(std::move(row));
  }
  // Paths may hold any bytes.
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_table(const QuantizeArguments& arguments, const CheckpointReport& report) {
  using enum Table::Align;
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"scheme"},
               {"SQNR dB", right},
               {"max abs error", right},
               {"before", right},
               {"after", right}});
  std::size_t quantized = 0;
  std::int64_t non_finite = 0;
  for (const TensorReport& t : report.tensors) {
    const bool q = t.quantized();
    quantized += q ? 1 : 0;
    non_finite += t.error.non_finite;
    table.add({t.entry->name, std::string(t.entry->type->text), shape_text(t.entry->shape),
               q ? t.scheme : "kept: " + t.kept_reason, q ? decibel_text(t.error.sqnr_db()) : "",
               q ? error_text(t.error.max_abs) : "", size_text(t.bytes_before),
               size_text(t.bytes_after)});
  }
  table.add_rule();
  table.add({fmt::format("{} quantized, {} kept", quantized, report.tensors.size() - quantized), "",
             "", "", "", "", size_text(report.file_bytes_before),
             size_text(report.file_bytes_after)});
  fmt::print("{}", table.text());
  if (non_finite > 0)
    fmt::print("{} values are NaN or infinite; the errors are those of all others\n", non_finite);
  fmt::print(
      "{}: {:.2f} times smaller\n", printable(arguments.out),
      static_cast<double>(report.file_bytes_before) / static_cast<double>(report.file_bytes_after));
}

int quantize(const QuantizeArguments& arguments) {
  const auto options = options_from(arguments);
  if (!options) return bad_input("quantize", options.error());
  const auto stream = arguments.device.stream();
  if (!stream) return bad_input("quantize", stream.error());
  const auto in = SafetensorsFile::open(arguments.in);
  if (!in) return bad_input("quantize", in.error());
  const auto report =
      quantize_checkpoint(*in, arguments.out, *options, *stream, arguments.device.threads);
  if (!report) return bad_input("quantize", report.error());
  if (arguments.json)
    print_json(arguments, *report);
  else
    print_table(arguments, *report);
  return kOk;
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<QuantizeArguments>();
  CLI::App* command =
      app.add_subcommand("quantize", "Quantize a checkpoint, with the error of every tensor");
  command->add_option("input", a->in, "A safetensors file")->required();
  command->add_option("-o,--output", a->out, "Where to write; replaced when complete, not before")
      ->required();
  command->add_option("--scheme", a->scheme, "Which elements share a scale")
      ->check(CLI::IsMember({"per-tensor", "per-channel", "per-token", "per-group"}))
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "The integers")
      ->check(CLI::IsMember({"s8", "u8", "s4", "u4"}))
      ->capture_default_str();
  command->add_option("--axis", a->axis, "per-channel: the channel axis")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  command->add_option("--group", a->group, "per-group: elements of a group, along the last axis")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  auto* symmetric =
      command->add_flag("--symmetric", a->symmetric, "Scale only, around zero (the default)");
  command->add_flag("--affine", a->affine, "Scale and zero point from the data")
      ->excludes(symmetric);
  command->add_option("--include", a->include,
                      "Quantize only names in which this regular expression is found");
  command->add_option("--exclude", a->exclude,
                      "Keep names in which this regular expression is found");
  command->add_option("--min-rank", a->min_rank, "Keep tensors of a lower rank: norms and biases")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  command->add_flag("--json", a->json, "Print the report as JSON");
  a->device.add_to(*command);
  command->footer(
      "Streams tensor by tensor: a checkpoint larger than memory is fine. What is not quantized "
      "(integers,\n"
      "low ranks, shapes the scheme cannot take) is kept byte for byte, with the reason in the "
      "table. The\n"
      "result holds NAME, NAME.scale, NAME.zero_point and the metadata to undo it; the same bytes "
      "come out\n"
      "on every device and thread count.\n\n"
      "  SQNR = 10 log10(sum x^2 / sum (x - restored)^2): 6 dB are one bit.\n\n"
      "Examples:\n"
      "  planck quantize model.safetensors -o small.safetensors\n"
      "  planck quantize model.safetensors -o small.safetensors --scheme per-group --group 64 "
      "--dtype s4\n"
      "  planck quantize model.safetensors -o small.safetensors --affine --dtype u8 --exclude "
      "'embed|lm_head'");
  command->callback([a, &exit_code] { exit_code = quantize(*a); });
}

}  // namespace planck::cli
