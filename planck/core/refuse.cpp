#include "planck/core/refuse.h"

#include <fmt/format.h>

#include "planck/core/exception.h"

namespace planck {

std::string MessagePart::text() const {
  switch (kind_) {
    case Kind::integer:
      return fmt::format("{}", integer_);
    case Kind::real:
      return fmt::format("{}", real_);
    case Kind::text:
      return std::string(text_);
    default:
      return to_string(*shape_);
  }
}

void refuse(ErrorCode code, std::string_view message, std::initializer_list<MessagePart> parts) {
  std::string text;
  for (const MessagePart& part : parts) {
    const auto at = message.find("{}");
    if (at == std::string_view::npos) break;
    text += message.substr(0, at);
    text += part.text();
    message.remove_prefix(at + 2);
  }
  text += message;
  raise(code, std::move(text));
}
void refuse(std::string_view message, std::initializer_list<MessagePart> parts) {
  refuse(ErrorCode::invalid_problem, message, parts);
}

}  // namespace planck
