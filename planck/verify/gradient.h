// Gradients against finite differences, in f64, for any pair of a forward and a backward op.
//
// With cotangent dy, L(inputs) = Σ dy · forward(inputs). For sampled elements of each checked
// input, (L(x + h) − L(x − h)) / 2h must equal the element of the backward's output within
// `tolerance`, relative to the larger of both and of `floor`. Integer inputs move by one instead of
// h: right where the forward is linear in them. The caller picks points at which the forward is
// smooth.
#pragma once

#include <string>
#include <vector>

#include "planck/verify/case.h"

namespace planck::verify {

struct GradientPair {
  // An input of the forward, and the backward's output that is its gradient.
  std::string input, gradient;
};

struct GradientCheck {
  Case forward;        // its float inputs are f64
  std::string output;  // of the forward
  std::string backward_op;
  Attributes backward_attributes;
  // An input of the backward, which takes its other inputs from the forward's by name.
  std::string cotangent = "dy";
  std::vector<GradientPair> pairs;
  double step = 0x1p-20, tolerance = 1e-6, floor = 1.0;
  int samples = 32;  // elements of each input
};

// "" where all agree; else the first element that does not.
std::string check_gradients(std::span<const OpEntry> ops, const GradientCheck& check);

}  // namespace planck::verify
