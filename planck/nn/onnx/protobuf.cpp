#include "planck/nn/onnx/protobuf.h"

#include <cstring>

namespace planck::nn {

namespace {
constexpr std::uint64_t kVarint = 0, kBytes = 2, kFixed32 = 5;
}

void Message::varint(std::uint64_t value) {
  for (; value > 127; value >>= 7) text_ += static_cast<char>((value & 127) | 128);
  text_ += static_cast<char>(value);
}
void Message::number(int field, std::int64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kVarint);
  varint(static_cast<std::uint64_t>(value));
}
void Message::real(int field, float value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kFixed32);
  char little[4];
  std::memcpy(little, &value, 4);
  text_.append(little, 4);
}
void Message::bytes(int field, std::string_view value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kBytes);
  varint(value.size());
  text_ += value;
}

}  // namespace planck::nn
