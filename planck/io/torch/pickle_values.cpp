#include "planck/io/torch/pickle_values.h"

namespace planck::pickle {

namespace {

struct AllowedName {
  std::string_view module, name;
  Global global;
  std::string_view encoding;  // of storage and element types
};
constexpr AllowedName kAllowed[] = {
    {"collections", "OrderedDict", Global::ordered_dict, ""},
    {"torch", "Size", Global::size, ""},
    {"torch._utils", "_rebuild_tensor", Global::tensor, ""},
    {"torch._utils", "_rebuild_tensor_v2", Global::tensor_v2, ""},
    {"torch._utils", "_rebuild_tensor_v3", Global::tensor_v3, ""},
    {"torch._utils", "_rebuild_parameter", Global::parameter, ""},
    {"torch", "DoubleStorage", Global::storage_type, "F64"},
    {"torch", "FloatStorage", Global::storage_type, "F32"},
    {"torch", "HalfStorage", Global::storage_type, "F16"},
    {"torch", "BFloat16Storage", Global::storage_type, "BF16"},
    {"torch", "LongStorage", Global::storage_type, "I64"},
    {"torch", "IntStorage", Global::storage_type, "I32"},
    {"torch", "ShortStorage", Global::storage_type, "I16"},
    {"torch", "CharStorage", Global::storage_type, "I8"},
    {"torch", "ByteStorage", Global::storage_type, "U8"},
    {"torch", "BoolStorage", Global::storage_type, "BOOL"},
    {"torch", "UntypedStorage", Global::storage_type, "U8"},
    {"torch.storage", "UntypedStorage", Global::storage_type, "U8"},
    {"torch", "float64", Global::element_type, "F64"},
    {"torch", "float32", Global::element_type, "F32"},
    {"torch", "float16", Global::element_type, "F16"},
    {"torch", "bfloat16", Global::element_type, "BF16"},
    {"torch", "float8_e4m3fn", Global::element_type, "F8_E4M3"},
    {"torch", "float8_e5m2", Global::element_type, "F8_E5M2"},
    {"torch", "float8_e8m0fnu", Global::element_type, "F8_E8M0"},
    {"torch", "float8_e4m3fnuz", Global::element_type, "F8_E4M3FNUZ"},
    {"torch", "float8_e5m2fnuz", Global::element_type, "F8_E5M2FNUZ"},
    {"torch", "int64", Global::element_type, "I64"},
    {"torch", "int32", Global::element_type, "I32"},
    {"torch", "int16", Global::element_type, "I16"},
    {"torch", "int8", Global::element_type, "I8"},
    {"torch", "uint8", Global::element_type, "U8"},
    {"torch", "uint16", Global::element_type, "U16"},
    {"torch", "uint32", Global::element_type, "U32"},
    {"torch", "uint64", Global::element_type, "U64"},
    {"torch", "bool", Global::element_type, "BOOL"},
};

}  // namespace

Values::Values(std::span<const std::byte> pickle)
    : pickle_(reinterpret_cast<const char*>(pickle.data()), pickle.size()), items_(1, 0) {
  values_.push_back({});
  for (const Kind kind : {Kind::boolean, Kind::boolean, Kind::real, Kind::tuple})
    values_.push_back({.kind = kind});
  for (Index i = 0; i < 256; ++i) values_.push_back({.kind = Kind::integer, .first = i});
}

std::int64_t Values::integer(Index at) const {
  const Value& v = values_[at];
  return static_cast<std::int64_t>(std::uint64_t{v.last} << 32 | v.first);
}
std::string_view Values::text(Index at) const {
  return pickle_.substr(values_[at].first, values_[at].count);
}
const TensorEncoding* Values::type(Index at) const { return &all_encodings()[values_[at].type]; }

Index Values::add(const Value& value) {
  values_.push_back(value);
  return static_cast<Index>(values_.size() - 1);
}
Index Values::add_integer(std::int64_t value) {
  if (value >= 0 && value < 256) return kZero + static_cast<Index>(value);
  const auto bits = static_cast<std::uint64_t>(value);
  return add({.kind = Kind::integer,
              .first = static_cast<Index>(bits),
              .last = static_cast<Index>(bits >> 32)});
}
Index Values::add_text(std::string_view text) {
  return add({.kind = Kind::text,
              .count = static_cast<std::uint32_t>(text.size()),
              .first = static_cast<Index>(text.data() - pickle_.data())});
}
Index Values::add_with_items(Value value, std::span<const Index> items) {
  value.count = static_cast<std::uint32_t>(items.size());
  value.first = static_cast<Index>(items_.size());
  items_.insert(items_.end(), items.begin(), items.end());
  return add(value);
}
void Values::append(Index to, std::span<const Index> items) {
  if (items.empty()) return;
  Value& v = values_[to];
  const auto part = static_cast<Index>(items_.size());
  items_.push_back(0);
  items_.push_back(static_cast<Index>(items.size()));
  items_.insert(items_.end(), items.begin(), items.end());
  (v.count == 0 ? v.first : items_[v.last]) = part;
  v.last = part;
  v.count += static_cast<std::uint32_t>(items.size());
}

std::optional<Value> find_allowed(std::string_view module, std::string_view name) {
  for (const AllowedName& a : kAllowed) {
    if (a.module != module || a.name != name) continue;
    Value value{.kind = Kind::name, .global = a.global};
    if (!a.encoding.empty())
      value.type = static_cast<std::uint8_t>(find_encoding(a.encoding) - all_encodings().data());
    return value;
  }
  return std::nullopt;
}

}  // namespace planck::pickle
