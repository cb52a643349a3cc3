// Tensors for {fmt}: fmt::print("{}\n", x). As they are printed to a stream; width and alignment as
// of text. A header of its own, so that only those who format compile {fmt}.
#pragma once

#include <fmt/core.h>

#include "planck/backend/tensor.h"

// T: a tensor, or a part of one.
template <class T>
requires std::derived_from<T, planck::Tensor<typename T::Backend, typename T::Kind>>
struct fmt::formatter<T, char> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const T& x, Context& context) const {
    return fmt::formatter<std::string_view>::format(x.to_string_of_elements(), context);
  }
};
