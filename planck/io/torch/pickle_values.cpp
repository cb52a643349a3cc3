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

std::optional<Value> find_allowed(std::string_view module, std::string_view name) {
  for (const AllowedName& a : kAllowed)
    if (a.module == module && a.name == name)
      return Value{.kind = Kind::name,
                   .global = a.global,
                   .type = a.encoding.empty() ? nullptr : find_encoding(a.encoding)};
  return std::nullopt;
}

}  // namespace planck::pickle
