// Every op on tensors that the library has compiled, with odd dtypes, shapes and attributes: on
// Cpu, on Cuda, and on the naive backend.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planck/plan/attributes.h"
#include "planck/verify/tensors/host_tensor.h"

namespace planck::conformance {

using Tensors = std::vector<verify::HostTensor>;

// One op on tensors of some kinds: "float", "int", "bool", "code"; none for one that creates.
struct TensorOp {
  std::string name;
  std::vector<std::string> kinds;
  bool any_number = false;   // takes a vector of tensors
  std::size_t variants = 2;  // the op as it is made, as an example has it, and with odd attributes
  // What the op gives; refusals are thrown as planck::Exception. The attributes are an example's.
  using Run = Tensors(const Attributes& attributes, const Tensors& in, std::size_t variant);
  std::function<Run> cpu, cuda;
  std::function<Run> reference;  // null: the naive backend has no way
};

// All of them: the lists of the families are compiled once more, so that new ops are in.
const std::vector<TensorOp>& all_tensor_ops();

}  // namespace planck::conformance
