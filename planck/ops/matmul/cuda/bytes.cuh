// One run of batches of s8 products on warpgroups.
#pragma once

#include "planck/core/workspace.h"
#include "planck/loops/gemm/cuda/warpgroups.h"

namespace planck::matmul_device {

// `sums` has room for parts that are added up, or none.
Result<void> run_bytes(const Stream&, const gemm_device::WarpgroupRun&, const Workspace& sums,
                       bool& ran);

}  // namespace planck::matmul_device
