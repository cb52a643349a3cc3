// The CUDA kernels of the conv family, as host code sees them. Workspace sizes are also known to
// builds without CUDA.
#pragma once

#include "planck/loops/gemm/cuda/follows.h"
#include "planck/ops/conv/conv.problem.h"

namespace planck {

// cuda:places; every dtype, any strides
PLANCK_CUDA_LIBRARY Result<void> conv_cuda(const Stream&, Workspace, const ConvProblem&,
                                           const Operands&);
PLANCK_CUDA_LIBRARY Result<void> conv_weight_cuda(const Stream&, Workspace, const ConvProblem&,
                                                  const Operands&);
std::size_t conv_weight_cuda_workspace(const ConvProblem&);  // sums of chunks

// cuda:warpgroups and cuda:mma_sync, tensor_core; cuda:digits, exact: tensor cores, any strides
std::string conv_warpgroups_refusal(const ConvProblem&);
std::size_t conv_warpgroups_workspace(const ConvProblem&);
PLANCK_CUDA_LIBRARY Result<void> conv_tensor_cores(const Stream&, Workspace, const ConvProblem&,
                                                   const Operands&, gemm_device::Instruction);
PLANCK_CUDA_LIBRARY Result<void> conv_weight_tensor_cores(const Stream&, Workspace,
                                                          const ConvProblem&, const Operands&,
                                                          gemm_device::Instruction);

// cuda:implicit, tensor_core, one group of 16 channels (TF32: 8) or more, dweight of 16-bit
// elements alone: windows that the copy engine brings
std::string conv_implicit_refusal(const ConvProblem&);
std::size_t conv_implicit_workspace(const ConvProblem&);
PLANCK_CUDA_LIBRARY Result<void> conv_implicit(const Stream&, Workspace, const ConvProblem&,
                                               const Operands&);

// cuda:implicit_digits, exact, 16 channels of a group or more: digits that the copy engine brings
std::string conv_implicit_digits_refusal(const ConvProblem&);
std::size_t conv_implicit_digits_workspace(const ConvProblem&);
PLANCK_CUDA_LIBRARY Result<void> conv_implicit_digits(const Stream&, Workspace, const ConvProblem&,
                                                      const Operands&);
PLANCK_CUDA_LIBRARY Result<void> conv_weight_implicit_digits(const Stream&, Workspace,
                                                             const ConvProblem&, const Operands&);

// cuda:integer_lanes, tensor_core; cuda:integers, exact: any GPU, any strides
PLANCK_CUDA_LIBRARY Result<void> conv_integer_lanes_cuda(const Stream&, Workspace,
                                                         const ConvProblem&, const Operands&);
PLANCK_CUDA_LIBRARY Result<void> conv_integers_cuda(const Stream&, Workspace, const ConvProblem&,
                                                    const Operands&);
std::size_t conv_integers_cuda_workspace(const ConvProblem&);

}  // namespace planck
