// planck quantize: a checkpoint's weights as integers, with what it costs, tensor by tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "planck/io/gguf/encode_blocks.h"
#include "tools/planck/checkpoint/checkpoint_quantizer.h"
#include "tools/planck/checkpoint/compressed_tensors.h"
#include "tools/planck/checkpoint/size_option.h"
#include "tools/planck/commands.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/output_option.h"
#include "tools/planck/print/left_out.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct QuantizeArguments {
  std::vector<std::string> in;
  std::string out, scheme = "per-channel", dtype = "s8", include, exclude, format = "planck",
                   method = "rtn", shard_size;
  int axis = 0, min_rank = 2;
  std::int64_t group = 128;
  bool symmetric = false, affine = false, json = false, force = false, strict = false,
       dry_run = false;
  std::vector<std::string> given;  // of the scheme's options and the filters
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

// An option that would do nothing is a misunderstanding.
Result<void> check_given(const QuantizeArguments& arguments) {
  for (const std::string& option : arguments.given) {
    if (option == "--include" || option == "--exclude") {
      if ((option == "--include" ? arguments.include : arguments.exclude).empty())
        return fail(ErrorCode::invalid_problem,
                    fmt::format("{} is empty, which is found in every name", option));
      continue;
    }
    if (arguments.format == "gguf")
      return fail(
          ErrorCode::invalid_problem,
          fmt::format("{} is not for --format gguf: --dtype names a type, which has blocks, "
                      "scales and zero points of its own",
                      option));
    const std::string scheme = option == "--axis"    ? "per-channel"
                               : option == "--group" ? "per-group"
                                                     : arguments.scheme;
    if (arguments.scheme != scheme)
      return fail(ErrorCode::invalid_problem, fmt::format("{} is for --scheme {}, the scheme is {}",
                                                          option, scheme, arguments.scheme));
  }
  return {};
}

// What the output is made of. GGUF has types of its own, which --dtype names.
Result<void> read_format(const QuantizeArguments& arguments, QuantizeOptions& options) {
  const auto dtype = parse_dtype(arguments.dtype);
  if (arguments.format == "gguf") {
    options.format = CheckpointFormat::gguf;
    std::string type = arguments.dtype == "s8" ? "q8_0" : arguments.dtype;
    std::transform(type.begin(), type.end(), type.begin(),
                   [](char c) { return static_cast<char>(std::toupper(c)); });
    options.blocks = find_encoding(type);
    if (options.blocks == nullptr || find_block_encoder(*options.blocks) == nullptr)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("--dtype {} is not written to --format gguf; q8_0, q4_0, q4_1, q5_0, "
                              "q5_1, q4_k and q6_k "
                              "are",
                              arguments.dtype));
    return {};
  }
  if (!dtype)
    return fail(ErrorCode::invalid_problem,
                fmt::format("--dtype {} is of --format gguf; s8, u8, s4 and u4 are written here",
                            arguments.dtype));
  options.scheme.dtype = *dtype;
  if (arguments.format != "compressed-tensors") return {};
  options.format = CheckpointFormat::compressed_tensors;
  return check_compressed_tensors(options.scheme);
}

Result<QuantizeOptions> options_from(const QuantizeArguments& arguments) {
  QuantizeOptions options;
  if (auto ok = check_given(arguments); !ok) return tl::unexpected(ok.error());
  options.scheme.scheme = arguments.scheme;
  std::replace(options.scheme.scheme.begin(), options.scheme.scheme.end(), '-', '_');
  options.scheme.axis = arguments.axis;
  options.scheme.group = arguments.group;
  options.scheme.symmetric = !arguments.affine;
  options.method = arguments.method == "mse" ? Method::mse : Method::rtn;
  if (auto ok = read_format(arguments, options); !ok) return tl::unexpected(ok.error());
  if (!arguments.shard_size.empty()) {
    const auto bytes = parse_size(arguments.shard_size);
    if (!bytes) return fail(bytes.error().code, "--shard-size " + bytes.error().message);
    options.shard_bytes = *bytes;
  }
  options.min_rank = arguments.min_rank;
  options.strict = arguments.strict;
  options.dry_run = arguments.dry_run;
  if (auto ok = read_pattern("--include", arguments.include, options.include); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = read_pattern("--exclude", arguments.exclude, options.exclude); !ok)
    return tl::unexpected(ok.error());
  return options;
}

// A filter that does nothing is a mistyped one.
Result<void> check_filters(const QuantizeArguments& arguments, const QuantizeOptions& options,
                           const CheckpointSource& in) {
  const auto found = [&](const NamePattern& pattern) {
    return std::any_of(in.tensors().begin(), in.tensors().end(),
                       [&](const SourceTensor& e) { return pattern.found_in(e.name); });
  };
  for (const auto& [option, text, pattern] :
       {std::tuple{"--include", &arguments.include, &options.include},
        {"--exclude", &arguments.exclude, &options.exclude}})
    if (*pattern && !in.tensors().empty() && !found(**pattern))
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{} {} matches no name; {} has {}, the first is {}", option, *text,
                              in.path(), in.tensors().size(), in_quotes(in.tensors()[0].name)));
  return {};
}

nlohmann::json number_or_null(double value) {  // JSON has no infinity
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

void report_json(const QuantizeArguments& arguments, const CheckpointReport& report) {
  nlohmann::ordered_json j{
      {"input",
       arguments.in.size() == 1 ? nlohmann::json(arguments.in[0]) : nlohmann::json(arguments.in)},
      {"output", arguments.out.empty() ? nlohmann::json(nullptr) : nlohmann::json(arguments.out)},
      {"dry_run", arguments.dry_run},
      {"file_bytes_before", report.file_bytes_before},
      {"file_bytes_after", report.file_bytes_after},
      {"tensors", nlohmann::ordered_json::array()}};
  for (const TensorReport& t : report.tensors) {
    nlohmann::ordered_json row{{"name", t.entry->name},          {"dtype", t.entry->type->text},
                               {"shape", t.entry->shape},        {"quantized", t.quantized()},
                               {"bytes_before", t.bytes_before}, {"bytes_after", t.bytes_after}};
    if (t.quantized()) {
      row["scheme"] = t.scheme;
      if (arguments.dry_run) {
        j["tensors"].push_back(std::move(row));
        continue;
      }
      row["kernel"] = t.kernel;
      row["sqnr_db"] = number_or_null(t.error.sqnr_db());
      if (t.noise_before) row["sqnr_db_rtn"] = number_or_null(t.sqnr_db_before());
      row["max_abs_error"] = number_or_null(t.error.max_abs);
      row["non_finite"] = t.error.non_finite;
    } else {
      row["kept"] = t.kept_reason;
    }
    j["tensors"].push_back(std::move(row));
  }
  // Paths may hold any bytes.
  print_json(j);
}

// "31.20", or with a search what it was before: "30.11 → 31.20".
std::string decibels(const TensorReport& t) {
  const std::string after = decibel_text(t.error.sqnr_db());
  return t.noise_before ? fmt::format("{} → {}", decibel_text(t.sqnr_db_before()), after) : after;
}

void report_table(const QuantizeArguments& arguments, const CheckpointReport& report) {
  using enum Table::Align;
  Table table({{"tensor"},
               {"dtype", left, 2},
               {"shape", left, 3},
               {"scheme"},
               {arguments.method == "mse" ? "SQNR dB rtn → mse" : "SQNR dB", right},
               {"max abs error", right, 4},
               {"before", right, 1},
               {"after", right}});
  std::size_t quantized = 0, unsound = 0;
  std::string named;  // those that hold NaN or infinity
  for (const TensorReport& t : report.tensors) {
    const bool q = t.quantized();
    quantized += q ? 1 : 0;
    if (t.error.non_finite > 0 && unsound++ < 8)
      named += fmt::format("  {}: {} values\n", in_quotes(t.entry->name), t.error.non_finite);
    table.add({t.entry->name, std::string(t.entry->type->text), shape_text(t.entry->shape),
               q ? t.scheme : "kept: " + t.kept_reason, q ? decibels(t) : "",
               q ? error_text(t.error.max_abs) : "", size_text(t.bytes_before),
               size_text(t.bytes_after)});
  }
  table.add_rule();
  table.add({fmt::format("{} quantized, {} kept", quantized, report.tensors.size() - quantized), "",
             "", "", "", "", size_text(report.file_bytes_before),
             size_text(report.file_bytes_after)});
  print(table.text());
  if (unsound > 0)
    print(
        "{} values that are NaN or infinite; the errors are those of all others, "
        "--strict refuses:\n{}{}",
        unsound == 1 ? "1 tensor holds" : fmt::format("{} tensors hold", unsound), named,
        unsound > 8 ? "  …\n" : "");
  const auto before = static_cast<double>(report.file_bytes_before),
             after = static_cast<double>(report.file_bytes_after);
  print("{}: {:.2f} times {}\n", printable(arguments.out),
        after > before ? after / before : before / after, after > before ? "larger" : "smaller");
}

// --dry-run: what would be quantized and what kept, and why, each group in a row.
void report_plan(const QuantizeArguments& arguments, const CheckpointReport& report) {
  using enum Table::Align;
  struct Group {
    std::size_t tensors = 0;
    std::uint64_t before = 0, after = 0;
  };
  std::map<std::pair<bool, std::string>, Group> groups;
  for (const TensorReport& t : report.tensors) {
    Group& g = groups[{!t.quantized(), t.quantized() ? t.scheme : "kept: " + t.kept_reason}];
    ++g.tensors;
    g.before += t.bytes_before;
    g.after += t.bytes_after;
  }
  Table table({{"what"}, {"tensors", right}, {"before", right}, {"after", right}});
  for (const auto& [what, g] : groups)
    table.add({what.second, std::to_string(g.tensors), size_text(g.before), size_text(g.after)});
  table.add_rule();
  table.add({"the file", std::to_string(report.tensors.size()), size_text(report.file_bytes_before),
             size_text(report.file_bytes_after)});
  print(table.text());
  print("Nothing was written. Without --dry-run: {}\n",
        arguments.out.empty() ? "-o says where" : printable(arguments.out));
}

int quantize(const QuantizeArguments& arguments) {
  if (arguments.out.empty() && !arguments.dry_run)
    return bad_input("quantize", "--output is required; see planck quantize --help");
  const auto options = options_from(arguments);
  if (!options) return bad_input("quantize", options.error());
  const auto stream = arguments.device.stream();
  if (!stream) return bad_input("quantize", stream.error());
  const auto in = CheckpointSource::open(arguments.in);
  if (!in) return bad_input("quantize", in.error());
  for (const std::string& file : in->files())
    if (auto ok = check_output(file, arguments.out, arguments.force || arguments.dry_run); !ok)
      return bad_input("quantize", ok.error());
  if (auto ok = check_filters(arguments, *options, *in); !ok)
    return bad_input("quantize", ok.error());
  const InterruptHint hint(
      "quantize", fmt::format("{} is as it was; the same command starts over", arguments.out));
  const auto report =
      quantize_checkpoint(*in, arguments.out, *options, *stream, arguments.device.threads);
  if (!report) return bad_input("quantize", report.error());
  if (arguments.json)
    report_json(arguments, *report);
  else if (arguments.dry_run)
    report_plan(arguments, *report);
  else
    report_table(arguments, *report);
  if (!arguments.json) print(left_out_line(in->left_out()));
  return kOk;
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<QuantizeArguments>();
  CLI::App* command =
      app.add_subcommand("quantize", "Quantize a checkpoint, with the error of every tensor");
  command
      ->add_option(
          "input", a->in,
          "Files, a folder or an index.json: safetensors, GGUF, .npy, PyTorch's .pt and .bin")
      ->required();
  command->add_option("-o,--output", a->out,
                      "Where to write; replaced when complete, not before. --dry-run needs none");
  const auto no_graph = [](const std::string& format) {
    return format != "onnx"
               ? std::string()
               : "onnx files are models, and a checkpoint has no graph; nn::OnnxModel "
                 "(planck/nn/onnx/onnx.h) writes a converted module, planck demo its own";
  };
  command->add_option("--format", a->format, "What to write")
      ->check(CLI::Validator(no_graph, ""))
      ->check(CLI::IsMember({"planck", "compressed-tensors", "gguf"}))
      ->capture_default_str();
  command
      ->add_option("--method", a->method,
                   "rtn: the scale that holds every value; mse: the one of least squared error")
      ->check(CLI::IsMember({"rtn", "mse"}))
      ->capture_default_str();
  command->add_option("--shard-size", a->shard_size,
                      "Write a folder of files of at most this size: 5GB, 500MB");
  command->add_option("--scheme", a->scheme, "Which elements share a scale")
      ->check(CLI::IsMember({"per-tensor", "per-channel", "per-token", "per-group"}))
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "The integers, or GGUF's type")
      ->transform(CLI::IsMember(
          {"s8", "u8", "s4", "u4", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q6_k"},
          CLI::ignore_case))
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
  command->add_flag("--strict", a->strict, "Refuse weights that hold NaN or infinity");
  command->add_flag("-n,--dry-run", a->dry_run, "Say what would be done, and write nothing");
  add_force(*command, a->force);
  a->device.add_to(*command);
  command->footer(
      "Streams piece by piece: checkpoints and tensors larger than memory are fine. What is not "
      "quantized\n"
      "(integers, low ranks, shapes the scheme cannot take) is kept byte for byte, with the reason "
      "in the\n"
      "table. The same bytes come out on every device and thread count. docs/checkpoint_format.md "
      "describes "
      "the\n"
      "formats; planck: NAME, NAME_scale, with --affine NAME_zero_point, and the metadata to undo "
      "it.\n\n"
      "  SQNR = 10 log10(sum x^2 / sum (x - restored)^2): 6 dB are one bit.\n\n"
      "Examples:\n"
      "  planck quantize model.safetensors -o small.safetensors\n"
      "  planck quantize model.safetensors -o small.safetensors --scheme per-group --group 64 "
      "--dtype s4\n"
      "  planck quantize model.safetensors -o small.safetensors --affine --dtype u8 --exclude "
      "'embed|lm_head'\n"
      "  planck quantize llama/ -o llama-int4/ --format compressed-tensors --dtype s4 --scheme "
      "per-group\n"
      "  planck quantize llama-f16.gguf -o llama-q4_k.gguf --format gguf --dtype q4_k\n"
      "  planck quantize llama/ -o small/ --method mse --dtype s4 --scheme per-group --shard-size "
      "5GB\n"
      "  planck quantize model.safetensors --dry-run");
  command->callback([a, command, &exit_code] {
    for (const char* option :
         {"--scheme", "--axis", "--group", "--symmetric", "--affine", "--include", "--exclude"})
      if (command->count(option) > 0) a->given.emplace_back(option);
    exit_code = quantize(*a);
  });
}

}  // namespace planck::cli
