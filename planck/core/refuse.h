// Errors with numbers in them, thrown from headers: the text is put together in the library, so
// that those who include them do not compile a formatting library.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "planck/core/dtype.h"
#include "planck/core/result.h"
#include "planck/core/shape.h"

namespace planck {

// What one {} of a message stands for.
class MessagePart {
 public:
  MessagePart(std::int64_t v) : kind_(Kind::integer), integer_(v) {}
  MessagePart(int v) : MessagePart(static_cast<std::int64_t>(v)) {}
  MessagePart(double v) : kind_(Kind::real), real_(v) {}
  MessagePart(std::string_view v) : kind_(Kind::text), text_(v) {}
  MessagePart(const char* v) : MessagePart(std::string_view(v)) {}
  MessagePart(const std::string& v) : MessagePart(std::string_view(v)) {}
  MessagePart(Dtype v) : MessagePart(name(v)) {}
  MessagePart(const Shape& v) : kind_(Kind::shape), shape_(&v) {}
  std::string text() const;

 private:
  enum class Kind : std::uint8_t { integer, real, text, shape } kind_;
  union {
    std::int64_t integer_;
    double real_;
    std::string_view text_;
    const Shape* shape_;
  };
};

// Throws "{} of {}" with its parts put in.
[[noreturn]] void refuse(ErrorCode code, std::string_view message,
                         std::initializer_list<MessagePart> parts);
[[noreturn]] void refuse(std::string_view message, std::initializer_list<MessagePart> parts);

}  // namespace planck
