#include "planck/ops/quantize/quantize.format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "planck/io/json_depth.h"
#include "planck/io/safetensors_header.h"
#include "planck/ops/quantize/quantize.math.h"

namespace planck {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxSchemeText = 4096;
constexpr int kMaxSchemeDepth = 8;  // one of ours has 2
constexpr std::string_view kSchemes[] = {"per_tensor", "per_channel", "per_token", "per_group"};

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// The members of a JSON object, each as what it should be.
class Members {
 public:
  explicit Members(const json& object) : object_(object) {}

  std::string text(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_string() ? it->get<std::string>() : std::string();
  }
  std::int64_t integer(const char* key, std::int64_t absent) const {
    const auto it = object_.find(key);
    if (it == object_.end() || !it->is_number_integer()) return absent;
    if (it->is_number_unsigned() && it->get<std::uint64_t>() > kMost) return -1;
    return it->get<std::int64_t>();
  }
  bool truth(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_boolean() && it->get<bool>();
  }
  Result<Shape> shape(const char* key) const {
    const auto it = object_.find(key);
    if (it == object_.end() || !it->is_array() || it->size() > kMaxRank)
      return refuse(fmt::format("{} is not an array of at most {} extents", key, kMaxRank));
    Shape shape;
    for (const json& extent : *it) {
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kMost)
        return refuse(fmt::format("{} does not hold whole numbers below 2^63", key));
      shape.push_back(extent.get<std::int64_t>());
    }
    if (auto ok = check_shape(shape, key); !ok) return refuse(ok.error().message);
    return shape;
  }

 private:
  static constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const json& object_;
};

// Whether the groups of a scheme are those of a tensor of its shape.
Result<void> check_groups(const StoredScheme& s) {
  const int rank = s.original_shape.rank();
  if (s.scheme == "per_channel" && s.axis >= rank)
    return refuse(
        fmt::format("axis is {}, the original shape is {}", s.axis, to_string(s.original_shape)));
  const std::int64_t last = rank == 0 ? 1 : s.original_shape[rank - 1];
  if (s.scheme == "per_group" && (s.group <= 0 || last % s.group != 0))
    return refuse(fmt::format("group is {}, the last extent is {}", s.group, last));
  return {};
}

}  // namespace

std::int32_t StoredScheme::common_zero_point() const {
  const IntRange held = int_range(dtype);
  return quantize_math::symmetric_zero_point(held.lowest, held.highest);
}

Result<StoredScheme> parse_stored_scheme(const std::string& text) {
  // A tree of JSON is a hundred times its text; one of ours has some hundred bytes.
  if (text.size() > kMaxSchemeText)
    return refuse(fmt::format("has {} bytes, at most {} are read", text.size(), kMaxSchemeText));
  if (nests_deeper(text, kMaxSchemeDepth))
    return refuse(fmt::format("nests lists and objects deeper than {}", kMaxSchemeDepth));
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return refuse("is not a JSON object");
  const Members members(j);
  StoredScheme s;
  s.scheme = members.text("scheme");
  if (std::find(std::begin(kSchemes), std::end(kSchemes), s.scheme) == std::end(kSchemes))
    return refuse(
        fmt::format("scheme is {}, must be per_tensor, per_channel, per_token or per_group",
                    in_quotes(s.scheme)));
  const std::int64_t axis = members.integer("axis", -1);
  if (s.scheme == "per_channel" && (axis < 0 || axis >= kMaxRank))
    return refuse(fmt::format("axis is {}, must be in [0, {})", axis, kMaxRank));
  s.axis = s.scheme == "per_channel" ? static_cast<int>(axis) : 0;
  s.group = members.integer("group", -1);
  const auto dtype = parse_dtype(members.text("dtype"));
  if (!dtype || !is_quantized(*dtype))
    return refuse(
        fmt::format("dtype is {}, must be s8, u8, s4 or u4", in_quotes(members.text("dtype"))));
  s.dtype = *dtype;
  const IntRange held = int_range(s.dtype);
  const std::int64_t lowest = members.integer("q_min", held.lowest),
                     highest = members.integer("q_max", held.highest);
  if (lowest < held.lowest || highest > held.highest || lowest > highest)
    return refuse(fmt::format("q_min and q_max are {} and {}, {} holds {} to {}", lowest, highest,
                              name(s.dtype), held.lowest, held.highest));
  s.range = {static_cast<std::int32_t>(lowest), static_cast<std::int32_t>(highest)};
  s.symmetric = members.truth("symmetric");
  const std::string original = members.text("original_dtype");
  const SafetensorsDtype* stored = find_safetensors_dtype(original);
  if (stored == nullptr || !stored->dtype || !is_float(*stored->dtype))
    return refuse(
        fmt::format("original_dtype is {}, must be F64, F32, F16 or BF16", in_quotes(original)));
  s.original_dtype = *stored->dtype;
  auto shape = members.shape("original_shape");
  if (!shape) return tl::unexpected(shape.error());
  s.original_shape = *shape;
  if (auto ok = check_groups(s); !ok) return tl::unexpected(ok.error());
  return s;
}

std::string scheme_text(const StoredScheme& s) {
  std::string text = fmt::format("{{\"scheme\":\"{}\"", s.scheme);
  if (s.scheme == "per_channel") text += fmt::format(",\"axis\":{}", s.axis);
  if (s.scheme == "per_group") text += fmt::format(",\"group\":{}", s.group);
  text += fmt::format(",\"dtype\":\"{}\",\"q_min\":{},\"q_max\":{},\"symmetric\":{}", name(s.dtype),
                      s.range.lowest, s.range.highest, s.symmetric);
  if (s.symmetric) text += fmt::format(",\"zero_point\":{}", s.common_zero_point());
  return text + fmt::format(",\"original_dtype\":\"{}\",\"original_shape\":[{}]}}",
                            safetensors_dtype(s.original_dtype),
                            fmt::join(s.original_shape.begin(), s.original_shape.end(), ","));
}

}  // namespace planck
