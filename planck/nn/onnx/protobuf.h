// Google's wire format, as far as writing a model needs it: fields of numbers, bytes and messages.
//
//   Message node;
//   node.bytes(4, "Relu");          // field 4: text
//   graph.message(1, node);         // field 1: a message
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace planck::nn {

class Message {
 public:
  void number(int field, std::int64_t value);  // negative ones take ten bytes
  void real(int field, float value);
  void bytes(int field, std::string_view value);
  void message(int field, const Message& value) { bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value);

  std::string text_;
};

}  // namespace planck::nn
