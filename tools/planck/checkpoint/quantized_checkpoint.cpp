#include "tools/planck/checkpoint/quantized_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "planck/io/safetensors.h"
#include "planck/ops/ops.h"

namespace planck::cli {

namespace {

using nlohmann::json;

constexpr std::string_view kSchemes[] = {"per_tensor", "per_channel", "per_token", "per_group"};

Attributes attributes_of(const TensorScheme& s) {
  Attributes attributes{{"dtype", std::string(name(s.dtype))}};
  if (s.scheme == "per_channel") attributes["axis"] = std::to_string(s.axis);
  if (s.scheme == "per_group") attributes["group"] = std::to_string(s.group);
  return attributes;
}

const OperandSpec& spec_of(const AnyProblem& problem, const std::vector<OperandSpec>& specs,
                           std::string_view operand) {
  return specs[static_cast<std::size_t>(problem.info().operand(operand))];
}

tl::unexpected<Error> in_metadata(std::string_view tensor, std::string why) {
  return fail(ErrorCode::io, fmt::format("metadata of tensor {}: {}", in_quotes(tensor), why));
}

// Reads the JSON text; whether it fits the tensors is another question.
Result<TensorScheme> parse_scheme(std::string_view tensor, const std::string& text) {
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return in_metadata(tensor, "is not a JSON object");
  const auto text_of = [&](const char* key) {
    const auto it = j.find(key);
    return it != j.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto integer_of = [&](const char* key, std::int64_t absent) {
    const auto it = j.find(key);
    return it != j.end() && it->is_number_integer() ? it->get<std::int64_t>() : absent;
  };
  TensorScheme s;
  s.scheme = text_of("scheme");
  if (std::find(std::begin(kSchemes), std::end(kSchemes), s.scheme) == std::end(kSchemes))
    return in_metadata(
        tensor, fmt::format("scheme is {}, must be per_tensor, per_channel, per_token or per_group",
                            in_quotes(s.scheme)));
  const std::int64_t axis = integer_of("axis", -1);
  if (s.scheme == "per_channel" && (axis < 0 || axis >= kMaxRank))
    return in_metadata(tensor, fmt::format("axis is {}, must be in [0, {})", axis, kMaxRank));
  s.axis = s.scheme == "per_channel" ? static_cast<int>(axis) : 0;
  s.group = integer_of("group", -1);
  const auto dtype = parse_dtype(text_of("dtype"));
  if (!dtype || !is_quantized(*dtype))
    return in_metadata(
        tensor, fmt::format("dtype is {}, must be s8, u8, s4 or u4", in_quotes(text_of("dtype"))));
  s.dtype = *dtype;
  const auto symmetric = j.find("symmetric");
  s.symmetric = symmetric != j.end() && symmetric->is_boolean() && symmetric->get<bool>();
  const SafetensorsDtype* original = find_safetensors_dtype(text_of("original_dtype"));
  if (original == nullptr || !original->dtype || !is_float(*original->dtype))
    return in_metadata(tensor, fmt::format("original_dtype is {}, must be F64, F32, F16 or BF16",
                                           in_quotes(text_of("original_dtype"))));
  s.original_dtype = *original->dtype;
  const auto shape = j.find("original_shape");
  if (shape == j.end() || !shape->is_array() || shape->size() > kMaxRank)
    return in_metadata(
        tensor, fmt::format("original_shape is not an array of at most {} extents", kMaxRank));
  for (const json& extent : *shape) {
    if (!extent.is_number_unsigned() ||
        extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      return in_metadata(tensor, "original_shape does not hold whole numbers below 2^63");
    s.original_shape.push_back(extent.get<std::int64_t>());
  }
  if (auto ok = check_shape(s.original_shape, "original_shape"); !ok)
    return in_metadata(tensor, ok.error().message);
  return s;
}

}  // namespace

std::string TensorScheme::metadata() const {
  nlohmann::ordered_json j;
  j["scheme"] = scheme;
  if (scheme == "per_channel") j["axis"] = axis;
  if (scheme == "per_group") j["group"] = group;
  j["dtype"] = name(dtype);
  j["q_min"] = int_range(dtype).lowest;
  j["q_max"] = int_range(dtype).highest;
  j["symmetric"] = symmetric;
  j["original_dtype"] = safetensors_dtype(original_dtype);
  j["original_shape"] = std::vector<std::int64_t>(original_shape.begin(), original_shape.end());
  return j.dump();
}

std::string TensorScheme::description() const {
  std::string text = scheme;
  std::replace(text.begin(), text.end(), '_', '-');
  if (scheme == "per_channel") text += fmt::format(" {}", axis);
  if (scheme == "per_group") text += fmt::format(" {}", group);
  return fmt::format("{} {}{}", text, name(dtype), symmetric ? "" : " affine");
}

Result<std::unique_ptr<AnyProblem>> TensorScheme::quantize_problem() const {
  Attributes attributes = attributes_of(*this);
  attributes["symmetric"] = symmetric ? "true" : "false";
  return parse_problem(all_ops(), "dynamic_quantize_" + scheme, attributes,
                       {{"x", {original_dtype, original_shape}}});
}

Result<std::unique_ptr<AnyProblem>> TensorScheme::dequantize_problem() const {
  const auto quantize = quantize_problem();  // knows the shape of the scale
  if (!quantize) return tl::unexpected(quantize.error());
  const auto specs = (*quantize)->specs();
  const OperandSpec& scale = spec_of(**quantize, specs, "scale");
  return parse_problem(all_ops(), "dequantize_" + scheme, attributes_of(*this),
                       {{"q", {dtype, original_shape}},
                        {"scale", {original_dtype, scale.shape}},
                        {"zero_point", {Dtype::i32, scale.shape}}});
}

bool is_quantized_checkpoint(const SafetensorsHeader& header) {
  return std::any_of(header.metadata.begin(), header.metadata.end(), [](const auto& entry) {
    return entry.first == kQuantizedKey || entry.first.starts_with(kQuantizedPrefix);
  });
}

Result<std::map<std::string, QuantizedTensor, std::less<>>> quantized_tensors(
    const SafetensorsHeader& header) {
  std::map<std::string, QuantizedTensor, std::less<>> found;
  if (!is_quantized_checkpoint(header)) return found;
  const auto version = header.metadata.find(kQuantizedKey);
  if (version == header.metadata.end() || version->second != kQuantizedVersion)
    return fail(
        ErrorCode::io,
        fmt::format("metadata {} is {}, this program reads version {}", kQuantizedKey,
                    version == header.metadata.end() ? "missing" : in_quotes(version->second),
                    kQuantizedVersion));
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& e : header.entries) by_name[e.name] = &e;

  for (const auto& [key, text] : header.metadata) {
    if (!key.starts_with(kQuantizedPrefix)) continue;
    const std::string tensor = key.substr(kQuantizedPrefix.size());
    auto scheme = parse_scheme(tensor, text);
    if (!scheme) return tl::unexpected(scheme.error());
    const auto problem = scheme->dequantize_problem();
    if (!problem) return in_metadata(tensor, problem.error().message);
    const auto specs = (*problem)->specs();

    // The three tensors, each as the scheme says it must be.
    const auto part = [&](std::string_view operand,
                          std::string_view suffix) -> Result<const SafetensorsEntry*> {
      const OperandSpec& spec = spec_of(**problem, specs, operand);
      const auto want = SafetensorsSpec::of(tensor + std::string(suffix), spec.dtype, spec.shape);
      if (!want) return tl::unexpected(want.error());
      const auto it = by_name.find(want->name);
      if (it == by_name.end())
        return in_metadata(tensor, fmt::format("there is no tensor {}", in_quotes(want->name)));
      if (it->second->type->text != want->dtype || it->second->shape != want->shape)
        return in_metadata(
            tensor, fmt::format("{} is {} {}, the scheme says {} {}", in_quotes(want->name),
                                it->second->type->text, shape_text(it->second->shape), want->dtype,
                                shape_text(want->shape)));
      return it->second;
    };
    const auto q = part("q", ""), scale = part("scale", kScaleSuffix),
               zero = part("zero_point", kZeroPointSuffix);
    for (const auto* p : {&q, &scale, &zero})
      if (!*p) return tl::unexpected(p->error());
    found.emplace(tensor, QuantizedTensor{std::move(*scheme), *q, *scale, *zero});
  }
  return found;
}

SafetensorsMetadata original_metadata(const SafetensorsHeader& header) {
  SafetensorsMetadata metadata = header.metadata;
  std::erase_if(metadata, [](const auto& entry) {
    return entry.first == kQuantizedKey || entry.first.starts_with(kQuantizedPrefix);
  });
  return metadata;
}

}  // namespace planck::cli
