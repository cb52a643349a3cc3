#include "tools/planck/checkpoint/compressed_tensors.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planck/io/json_depth.h"
#include "planck/io/mapped_file.h"

namespace planck::cli {

namespace {

constexpr std::string_view kWeight = ".weight";
// A tree of JSON may be a hundred times its text.
constexpr std::size_t kMaxConfig = std::size_t{1} << 22;
constexpr std::array<std::string_view, 5> kNotLinear = {"embed", "lm_head", "wte", "wpe", "norm"};

std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.size() - kWeight.size());
}

bool is_linear_name(const SourceTensor& t) {
  return t.name.ends_with(kWeight) && t.shape.size() == 2;
}

}  // namespace

Result<void> check_compressed_tensors(const TensorScheme& scheme) {
  const auto refuse = [](std::string why) {
    return fail(ErrorCode::invalid_problem, std::move(why));
  };
  if (!scheme.symmetric)
    return refuse("--affine is not part of --format compressed-tensors; leave it out");
  if (scheme.dtype != Dtype::s4 && scheme.dtype != Dtype::s8)
    return refuse(
        fmt::format("--dtype {} is not part of --format compressed-tensors, s4 and s8 are",
                    name(scheme.dtype)));
  const bool by_row = scheme.scheme == "per_channel" && scheme.axis == 0;
  if (scheme.scheme != "per_group" && !by_row)
    return refuse(
        "--format compressed-tensors takes --scheme per-group, or per-channel with --axis 0");
  return {};
}

std::string compressed_tensors_reason(const SourceTensor& t, const TensorScheme& scheme,
                                      bool by_name) {
  if (!is_linear_name(t)) return "not the weight of a linear layer";
  if (!by_name)
    for (const std::string_view part : kNotLinear)
      if (t.name.find(part) != t.name.npos)
        return fmt::format("not a linear layer by its name ({})", part);
  const std::int64_t together = 32 / bits(scheme.dtype);
  if (t.shape[1] % together != 0)
    return fmt::format("rows of {} are not whole words of {}", t.shape[1], together);
  return "";
}

std::vector<OutputTensor> compressed_tensors_outputs(const SourceTensor& t,
                                                     const TensorScheme& scheme) {
  const std::int64_t rows = t.shape[0], columns = t.shape[1];
  const std::int64_t groups = scheme.scheme == "per_group" ? columns / scheme.group : 1;
  return {{t.name + "_packed", &encoding_of(Dtype::i32), {rows, columns * bits(scheme.dtype) / 32}},
          {t.name + "_scale", &encoding_of(scheme.original_dtype), {rows, groups}},
          {t.name + "_shape", &encoding_of(Dtype::i64), {2}}};
}

Result<void> add_compressed_tensors_config(const CheckpointSource& in, const TensorScheme& scheme,
                                           CheckpointPlan& plan) {
  using nlohmann::ordered_json;
  ordered_json config = ordered_json::object();
  for (const std::string& path : in.companions()) {
    if (std::filesystem::path(path).filename() != "config.json") continue;
    const auto file = MappedFile::open(path);
    if (!file) return tl::unexpected(file.error());
    if (file->bytes().size() > kMaxConfig)
      return fail(ErrorCode::io, fmt::format("{}: has {} bytes, at most {} are read", path,
                                             file->bytes().size(), kMaxConfig));
    const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                                file->bytes().size());
    if (nests_deeper(text, kMaxJsonDepth))
      return fail(ErrorCode::io,
                  fmt::format("{}: nests lists and objects deeper than {}", path, kMaxJsonDepth));
    config = ordered_json::parse(text, nullptr, false);
    if (!config.is_object())
      return fail(ErrorCode::io, fmt::format("{}: is not a JSON object", path));
    if (config.contains("quantization_config"))
      return fail(ErrorCode::io,
                  fmt::format("{}: has a quantization_config, so is quantized already", path));
  }
  ordered_json ignore = ordered_json::array();
  for (const TensorPlan& t : plan.tensors)
    if (!t.quantized() && is_linear_name(*t.source)) ignore.push_back(module_of(t.source->name));
  const bool grouped = scheme.scheme == "per_group";
  ordered_json weights = {{"num_bits", bits(scheme.dtype)},
                          {"type", "int"},
                          {"symmetric", true},
                          {"strategy", grouped ? "group" : "channel"},
                          {"group_size", nullptr},
                          {"dynamic", false},
                          {"actorder", nullptr},
                          {"block_structure", nullptr},
                          {"observer", "minmax"},
                          {"observer_kwargs", ordered_json::object()}};
  if (grouped) weights["group_size"] = scheme.group;
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "pack-quantized"},
                                   {"quantization_status", "compressed"},
                                   {"config_groups",
                                    {{"group_0",
                                      {{"targets", {"Linear"}},
                                       {"weights", weights},
                                       {"input_activations", nullptr},
                                       {"output_activations", nullptr}}}}},
                                   {"ignore", ignore},
                                   {"kv_cache_scheme", nullptr},
                                   {"global_compression_ratio", nullptr}};
  plan.output.texts["config.json"] =
      config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return {};
}

}  // namespace planck::cli
