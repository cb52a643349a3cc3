#include "tools/planck/checkpoint/quantized_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "planck/ops/ops.h"
#include "planck/ops/quantize/quantize.format.h"
#include "planck/ops/quantize/quantize.math.h"
#include "planck/ops/quantize/quantize.problem.h"
#include "tools/planck/checkpoint/units/unit_cut.h"

namespace planck::cli {

namespace {

Attributes attributes_of(const TensorScheme& s) {
  Attributes attributes{{"dtype", std::string(name(s.dtype))}};
  if (s.scheme == "per_channel") attributes["axis"] = std::to_string(s.axis);
  if (s.scheme == "per_group") attributes["group"] = std::to_string(s.group);
  return attributes;
}

tl::unexpected<Error> in_metadata(std::string_view tensor, std::string why) {
  return fail(ErrorCode::io, fmt::format("metadata of tensor {}: {}", in_quotes(tensor), why));
}

// Reads the JSON text; whether it fits the tensors is another question.
Result<TensorScheme> parse_scheme(std::string_view tensor, const std::string& text) {
  auto s = parse_stored_scheme(text);
  if (!s) return in_metadata(tensor, s.error().message);
  return TensorScheme{.scheme = s->scheme,
                      .axis = s->axis,
                      .group = s->group,
                      .dtype = s->dtype,
                      .symmetric = s->symmetric,
                      .range = s->range,
                      .original_dtype = s->original_dtype,
                      .original_shape = s->original_shape};
}

}  // namespace

std::string TensorScheme::metadata() const {
  const IntRange held = range.value_or(int_range(dtype));
  return scheme_text({.scheme = scheme,
                      .axis = axis,
                      .group = group,
                      .dtype = dtype,
                      .range = held,
                      .symmetric = symmetric,
                      .original_dtype = original_dtype,
                      .original_shape = original_shape});
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

Shape group_shape(const TensorScheme& s) {
  QuantScheme scheme;
  scheme.granularity = s.scheme == "per_tensor"    ? Granularity::per_tensor
                       : s.scheme == "per_channel" ? Granularity::per_channel
                       : s.scheme == "per_token"   ? Granularity::per_token
                                                   : Granularity::per_group;
  scheme.axis = s.axis;
  scheme.group = s.group;
  return scheme.group_shape(s.original_shape);
}

std::int32_t QuantizedTensor::common_zero_point() const {
  const IntRange range = int_range(scheme.dtype);
  return quantize_math::symmetric_zero_point(range.lowest, range.highest);
}

bool is_quantized_checkpoint(const SafetensorsMetadata& metadata) {
  return std::any_of(metadata.begin(), metadata.end(), [](const auto& entry) {
    return entry.first == kQuantizedKey || entry.first.starts_with(kQuantizedPrefix);
  });
}

namespace {

// The tensors of a quantized one, each as the scheme says it must be.
Result<QuantizedTensor> find_parts(
    const std::string& name, const TensorScheme& scheme, bool first_version,
    const std::unordered_map<std::string_view, const SourceTensor*>& by_name) {
  const auto find = [&](const std::string& part) {
    const auto it = by_name.find(part);
    return it == by_name.end() ? nullptr : it->second;
  };
  const std::string scale = name + std::string(first_version ? ".scale" : kScaleSuffix);
  const std::string zero_point =
      name + std::string(first_version ? ".zero_point" : kZeroPointSuffix);
  QuantizedTensor t{scheme, find(name), find(scale), find(zero_point)};
  struct Part {
    const SourceTensor* tensor;
    const std::string& name;
    std::string_view type;
    Shape shape;  // as many elements, whatever their shape
  };
  Shape codes = scheme.original_shape;
  if (is_packed(scheme.dtype) && codes.rank() > 0) {
    const std::int64_t rows = codes[0];
    codes = {rows, rows == 0 ? 0 : (numel(codes) / rows + 1) / 2};  // rows begin at whole bytes
  }
  const Shape groups = group_shape(scheme);
  const Part parts[] = {{t.q, name, scheme.dtype == Dtype::s8 ? "I8" : "U8", codes},
                        {t.scale, scale, encoding_of(scheme.original_dtype).text, groups},
                        {t.zero_point, zero_point, "I32", groups}};
  for (const Part& part : parts) {
    if (part.tensor == nullptr && &part.name == &zero_point && scheme.symmetric && !first_version)
      continue;
    if (part.tensor == nullptr)
      return in_metadata(name, fmt::format("there is no tensor {}", in_quotes(part.name)));
    if (part.tensor->type->text != part.type || part.tensor->elements() != numel(part.shape))
      return in_metadata(
          name, fmt::format("{} is {} {}, the scheme says {} {}", in_quotes(part.name),
                            part.tensor->type->text, shape_text(part.tensor->shape), part.type,
                            to_string(part.shape)));
  }
  return t;
}

}  // namespace

Result<std::map<std::string, QuantizedTensor, std::less<>>> quantized_tensors(
    const CheckpointSource& source) {
  std::map<std::string, QuantizedTensor, std::less<>> found;
  const SafetensorsMetadata& metadata = source.metadata();
  if (!is_quantized_checkpoint(metadata)) return found;
  const auto version = metadata.find(kQuantizedKey);
  if (version == metadata.end() || (version->second != kQuantizedVersion && version->second != "1"))
    return fail(
        ErrorCode::io,
        fmt::format("metadata {} is {}, this program reads versions 1 and {}", kQuantizedKey,
                    version == metadata.end() ? "missing" : in_quotes(version->second),
                    kQuantizedVersion));
  std::unordered_map<std::string_view, const SourceTensor*> by_name;
  for (const SourceTensor& t : source.tensors()) by_name[t.name] = &t;
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kQuantizedPrefix)) continue;
    const std::string tensor = key.substr(kQuantizedPrefix.size());
    auto scheme = parse_scheme(tensor, text);
    if (!scheme) return tl::unexpected(scheme.error());
    auto parts = find_parts(tensor, *scheme, version->second == "1", by_name);
    if (!parts) return tl::unexpected(parts.error());
    found.emplace(tensor, std::move(*parts));
  }
  return found;
}

SafetensorsMetadata original_metadata(const SafetensorsMetadata& metadata) {
  SafetensorsMetadata original = metadata;
  std::erase_if(original, [](const auto& entry) {
    return entry.first == kQuantizedKey || entry.first.starts_with(kQuantizedPrefix);
  });
  return original;
}

}  // namespace planck::cli
