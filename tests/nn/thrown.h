// What an exception says.
#pragma once

#include <string>

#include "planck/core/exception.h"

namespace planck::test {

template <class F>
std::string message(const F& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace planck::test
