// Ops of a request done on tensors, as programs do them: what no plan does (shape_ops.h), and
// gradients. on_tensors.cpu.cpp and on_tensors.cuda.cpp have it for one backend each.
#pragma once

#include <map>

#include "planck/core/stream.h"
#include "planck/plan/registry.h"
#include "tools/planck/ops/host_tensor.h"

namespace planck::cli {

struct TensorRequest {
  const OpInfo* op = nullptr;
  const AnyProblem* problem = nullptr;  // of a registered op; null for one of shape_ops()
  Attributes attributes;
  std::map<std::string, HostView, std::less<>> inputs;
  std::map<std::string, HostView, std::less<>> cotangents;  // by the names of outputs
  bool gradients = false;
};

// The outputs and, where asked for, the gradient of every float input: zeros where none flows.
// Roots are the outputs that have a cotangent or, where none has, the first float one, with ones.
[[nodiscard]] Result<std::vector<HostTensor>> run_on_tensors(const TensorRequest& request,
                                                             const Stream& stream);

// Whether this machine has room for a result of so many bytes; asked before it is allocated.
[[nodiscard]] Result<void> check_memory(std::string_view op, std::string_view what, Dtype dtype,
                                        const Shape& shape);

template <class D>
struct OnTensors {
  static std::vector<HostTensor> run(const TensorRequest& request, const Stream& stream);
};

}  // namespace planck::cli
