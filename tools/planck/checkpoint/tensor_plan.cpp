#include "tools/planck/checkpoint/tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planck/nn/state_file.h"
#include "tools/planck/checkpoint/compressed_tensors.h"
#include "tools/planck/checkpoint/gguf_fields.h"
#include "tools/planck/checkpoint/mxfp4_pairs.h"
#include "tools/planck/checkpoint/units/unit_cut.h"

namespace planck::cli {

namespace {

using Action = TensorPlan::Action;

constexpr std::size_t kMostGgufName = 63;  // bytes: ggml has 64 for it, and its end

bool is_storable(const TensorEncoding& type, CheckpointFormat format) {
  return format == CheckpointFormat::gguf ? type.gguf >= 0 : type.safetensors;
}

// Floats as they are; other floats only where the output could not hold them otherwise.
bool is_quantizable(const TensorEncoding& type, CheckpointFormat format) {
  return type.is_plain_float() || (type.decode != nullptr && !is_storable(type, format));
}

// Why a tensor is kept, whatever its scheme; "" where nothing speaks against it.
std::string kept_reason(const SourceTensor& t, const QuantizeOptions& options) {
  if (t.type->decode != nullptr && is_storable(*t.type, options.format))
    return fmt::format("is {} already", t.type->text);
  if (!is_quantizable(*t.type, options.format)) return "not a float";
  if (options.include && !options.include->found_in(t.name)) return "not included";
  if (options.exclude && options.exclude->found_in(t.name)) return "excluded";
  const auto rank = static_cast<int>(std::min<std::size_t>(t.shape.size(), 1000));
  if (rank < options.min_rank) return fmt::format("rank {} is below {}", rank, options.min_rank);
  if (rank > kMaxRank) return fmt::format("rank {} is above {}", t.shape.size(), kMaxRank);
  if (t.elements() == 0) return "empty";
  if (options.format == CheckpointFormat::compressed_tensors)
    return compressed_tensors_reason(t, options.scheme, options.include.has_value());
  return "";
}

void plan_blocks(TensorPlan& plan, const QuantizeOptions& options) {
  const std::int64_t row = plan.source->shape.empty() ? 1 : plan.source->shape.back();
  if (row % options.blocks->elements != 0) {
    plan.kept_reason =
        fmt::format("rows of {} are not whole blocks of {}", row, options.blocks->elements);
    return;
  }
  plan.action = Action::blocks;
}

void plan_integers(TensorPlan& plan, const QuantizeOptions& options) {
  const SourceTensor& t = *plan.source;
  plan.scheme = options.scheme;
  plan.scheme.original_dtype = *CheckpointSource::float_dtype(*t.type);
  plan.scheme.original_shape = Shape(std::span<const std::int64_t>(t.shape));
  if (auto ok = plan.scheme.quantize_problem(); !ok) {
    // The rule without the op's name before it.
    const std::string& message = ok.error().message;
    const std::size_t colon = message.find(": ");
    plan.kept_reason = colon == message.npos ? message : message.substr(colon + 2);
    return;
  }
  const auto units = cut(group_layout(plan.scheme), kUnitElements);
  if (is_packed(plan.scheme.dtype) && std::any_of(units.begin(), units.end(), [](const Unit& u) {
        return u.first_element % 2 != 0;
      })) {
    plan.kept_reason =
        fmt::format("groups of {} elements, an odd number, do not begin at whole bytes",
                    group_layout(plan.scheme).inner);
    return;
  }
  plan.action = Action::integers;
}

// The integers of GGUF that hold all of a type's; null: none do.
const TensorEncoding* wider(const TensorEncoding& type) {
  constexpr std::string_view kWider[][2] = {
      {"BOOL", "I8"}, {"U8", "I16"}, {"U16", "I32"}, {"U32", "I64"}};
  for (const auto& [narrow, wide] : kWider)
    if (type.text == narrow) return find_encoding(wide);
  return nullptr;
}

// What is kept of a tensor whose type the output's format does not have.
Result<void> plan_other_type(TensorPlan& plan, const std::string& path, CheckpointFormat format) {
  const TensorEncoding& type = *plan.source->type;
  if (type.decode != nullptr) {
    plan.action = Action::decode;
  } else if (const auto* wide = wider(type); wide != nullptr && format == CheckpointFormat::gguf) {
    plan.action = Action::widen;
    plan.kept_reason += fmt::format(", written as {}", wide->text);
  } else {
    return fail(ErrorCode::io,
                fmt::format("{}: tensor {} is {}, which the output's format has no type for", path,
                            in_quotes(plan.source->name), type.text));
  }
  return {};
}

// The tensors that one becomes.
std::vector<OutputTensor> outputs_of(const TensorPlan& plan, const QuantizeOptions& options) {
  const SourceTensor& t = *plan.source;
  if (plan.action == Action::part) return {};
  if (plan.action == Action::keep) return {{t.name, t.type, t.shape}};
  if (plan.action == Action::decode) return {{t.name, &encoding_of(Dtype::f32), t.shape}};
  if (plan.action == Action::widen) return {{t.name, wider(*t.type), t.shape}};
  if (plan.action == Action::pair) return {{mxfp4_name(t), find_encoding("MXFP4"), mxfp4_shape(t)}};
  if (plan.action == Action::blocks) return {{t.name, options.blocks, t.shape}};
  if (options.format == CheckpointFormat::compressed_tensors)
    return compressed_tensors_outputs(t, plan.scheme);
  const TensorScheme& s = plan.scheme;
  std::vector<std::int64_t> codes = t.shape, groups;
  if (is_packed(s.dtype)) codes.back() /= 2;
  const Shape shape = group_shape(s);
  groups.assign(shape.begin(), shape.end());
  std::vector<OutputTensor> made = {
      {t.name, &encoding_of(s.dtype == Dtype::s8 ? Dtype::s8 : Dtype::u8), codes},
      {t.name + std::string(kScaleSuffix), &encoding_of(s.original_dtype), groups}};
  if (!s.symmetric)
    made.push_back({t.name + std::string(kZeroPointSuffix), &encoding_of(Dtype::i32), groups});
  return made;
}

bool writes_folder(const CheckpointSource& in, const std::string& out,
                   const QuantizeOptions& options) {
  if (options.shard_bytes > 0 || options.format == CheckpointFormat::compressed_tensors)
    return true;
  return in.is_folder() && !out.ends_with(".safetensors") && !out.ends_with(".gguf");
}

}  // namespace

Result<CheckpointPlan> plan_checkpoint(const CheckpointSource& in, const std::string& out,
                                       const QuantizeOptions& options) {
  CheckpointPlan plan;
  const bool gguf = options.format == CheckpointFormat::gguf;
  const Mxfp4Pairs pairs = gguf ? find_mxfp4_pairs(in) : Mxfp4Pairs{};
  std::set<const SourceTensor*> exponents;
  for (const auto& [blocks, scales] : pairs) exponents.insert(scales);
  for (const SourceTensor& t : in.tensors()) {
    TensorPlan one{.source = &t, .kept_reason = kept_reason(t, options), .scheme = {}};
    if (const auto pair = pairs.find(&t); pair != pairs.end()) {
      one.action = Action::pair;
      one.exponents = pair->second;
      one.kept_reason = fmt::format("is MXFP4 already, {}", in_quotes(mxfp4_name(t)));
    } else if (exponents.contains(&t)) {
      one.action = Action::part;
      one.kept_reason = "scales of MXFP4, with its blocks";
    } else if (one.kept_reason.empty()) {
      gguf ? plan_blocks(one, options) : plan_integers(one, options);
    }
    if (one.action == Action::keep && !is_storable(*t.type, options.format))
      if (auto ok = plan_other_type(one, in.path(), options.format); !ok)
        return tl::unexpected(ok.error());
    plan.tensors.push_back(std::move(one));
  }
  if (std::none_of(plan.tensors.begin(), plan.tensors.end(),
                   [](const TensorPlan& t) { return t.quantized(); }))
    return fail(
        ErrorCode::io,
        fmt::format("{}: no tensor can be quantized{}", in.path(),
                    plan.tensors.empty()
                        ? ", it has none"
                        : fmt::format(", {} are kept; the first, {}: {}", plan.tensors.size(),
                                      in_quotes(plan.tensors[0].source->name),
                                      plan.tensors[0].kept_reason)));
  std::set<std::string_view> names;
  for (const SourceTensor& t : in.tensors()) names.insert(t.name);
  plan.output = {.path = out,
                 .folder = writes_folder(in, out, options),
                 .gguf = gguf,
                 .shard_bytes = options.shard_bytes,
                 .metadata = nn::without_checksum(in.metadata()),
                 .copies = in.companions()};
  limit_modes(in, plan.output);
  for (TensorPlan& t : plan.tensors) {
    auto made = outputs_of(t, options);
    t.first_output = plan.outputs.size();
    t.outputs = made.size();
    for (OutputTensor& o : made) {
      o.with_the_one_before = &o != made.data();
      if (o.name != t.source->name && names.contains(o.name))
        return fail(
            ErrorCode::io,
            fmt::format("{}: tensor {} exists, quantizing {} would need that name; --exclude one",
                        in.path(), in_quotes(o.name), in_quotes(t.source->name)));
      // Names of a GGUF are its maker's concern.
      if (gguf && !in.is_gguf() && o.name.size() > kMostGgufName)
        return fail(ErrorCode::io,
                    fmt::format("{}: tensor {} has a name of {} bytes, ggml opens no file with one "
                                "of more than {}",
                                in.path(), in_quotes(o.name), o.name.size(), kMostGgufName));
      const auto bytes = encoded_bytes(*o.type, o.shape);
      if (!bytes)
        return fail(ErrorCode::io,
                    fmt::format("tensor {}: {}", in_quotes(o.name), bytes.error().message));
      t.bytes_after += *bytes;
      plan.outputs.push_back(std::move(o));
    }
    if (options.format == CheckpointFormat::planck && t.quantized())
      plan.output.metadata[std::string(kQuantizedPrefix) + t.source->name] = t.scheme.metadata();
  }
  if (options.format == CheckpointFormat::planck)
    plan.output.metadata[std::string(kQuantizedKey)] = kQuantizedVersion;
  if (options.format == CheckpointFormat::gguf)
    plan.output.fields = gguf_fields(in, *options.blocks);
  if (options.format == CheckpointFormat::compressed_tensors)
    if (auto ok = add_compressed_tensors_config(in, options.scheme, plan); !ok)
      return tl::unexpected(ok.error());
  return plan;
}

}  // namespace planck::cli
