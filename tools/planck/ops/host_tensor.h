// A tensor of a request or of its answer: named, row-major, on the host.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "planck/core/dtype.h"
#include "planck/core/shape.h"

namespace planck::cli {

// Bytes that somebody else keeps, at any address.
struct HostView {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

struct HostTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

// In a request, grad.NAME is the cotangent of output NAME; in the answer, the gradient of input
// NAME. No operand's own name begins so.
inline constexpr std::string_view kGradient = "grad.";

}  // namespace planck::cli
