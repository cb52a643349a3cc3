// The CPU kernels of the index family. Each serves every dtype and stride pattern of its ops;
// operands have been checked against the problem.
#pragma once

#include "planck/ops/index/index.problem.h"

namespace planck {

// gather, index_select: cpu:gather
Result<void> index_read_cpu(const Stream&, Workspace, const IndexProblem&, const Operands&);
std::size_t index_read_cpu_workspace(const IndexProblem&);

// scatter, and scatter_add and index_add of integers or of short lines: cpu:lines
Result<void> index_lines_cpu(const Stream&, Workspace, const IndexProblem&, const Operands&);
std::string index_lines_cpu_refusal(const IndexProblem&);

// scatter_add, index_add of floats: cpu:sorted_rows
Result<void> index_sums_cpu(const Stream&, Workspace, const IndexProblem&, const Operands&);
std::size_t index_sums_cpu_workspace(const IndexProblem&);

// mask_select, mask_scatter, nonzero: cpu:ranks
Result<void> index_masks_cpu(const Stream&, Workspace, const IndexProblem&, const Operands&);
std::size_t index_masks_cpu_workspace(const IndexProblem&);

// one_hot: cpu:classes
Result<void> index_one_hot_cpu(const Stream&, Workspace, const IndexProblem&, const Operands&);

}  // namespace planck
