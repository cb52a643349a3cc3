// Above the plans, errors are thrown: one exception type, which carries the Error.
#pragma once

#include <exception>
#include <type_traits>

#include "planck/core/result.h"

namespace planck {

class Exception : public std::exception {
 public:
  explicit Exception(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  ErrorCode code() const { return error_.code; }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

[[noreturn]] inline void raise(ErrorCode code, std::string message) {
  throw Exception(Error{code, std::move(message)});
}

// The value of a Result, or its error thrown.
template <class T>
T value_or_throw(Result<T>&& result) {
  if (!result) throw Exception(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace planck
