// Every op on tensors that the library has compiled, with odd dtypes, shapes and attributes, on Cpu
// and on the naive backend.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planck/verify/tensors/host_tensor.h"

namespace planck::conformance {

using Tensors = std::vector<verify::HostTensor>;

// One op on tensors of some kinds: "float", "int", "bool", "code".
struct TensorOp {
  std::string name;
  std::vector<std::string> kinds;
  bool any_number = false;   // takes a vector of tensors
  std::size_t variants = 1;  // the op with its own attributes, and with odd ones
  // What the op gives; refusals are thrown as planck::Exception.
  std::function<Tensors(const Tensors& in, std::size_t variant)> cpu;
  std::function<Tensors(const Tensors& in, std::size_t variant)> reference;  // null: has no way
};

// All of them: the lists of the families are compiled once more, so that new ops are in.
const std::vector<TensorOp>& all_tensor_ops();

}  // namespace planck::conformance
