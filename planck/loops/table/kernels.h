// What reads and adds rows of a table, on both devices: every dtype and stride pattern, operands
// that have been checked. Workspace sizes of CUDA kernels are also known to builds without CUDA.
#pragma once

#include "planck/core/macros.h"
#include "planck/core/stream.h"
#include "planck/core/workspace.h"
#include "planck/loops/table/table.h"
#include "planck/plan/op.h"

namespace planck {

// read
Result<void> read_rows_cpu(const Stream&, Workspace, const TableProblem&, const Operands&);
std::size_t read_rows_cpu_workspace(const TableProblem&);
PLANCK_CUDA_LIBRARY Result<void> read_rows_cuda(const Stream&, Workspace, const TableProblem&,
                                                const Operands&);  // without workspace

// add, add_sparse, add_bags: entries sorted by row
Result<void> add_rows_cpu(const Stream&, Workspace, const TableProblem&, const Operands&);
std::size_t add_rows_cpu_workspace(const TableProblem&);

// add; add_sparse
PLANCK_CUDA_LIBRARY Result<void> add_rows_cuda(const Stream&, Workspace, const TableProblem&,
                                               const Operands&);
PLANCK_CUDA_LIBRARY Result<void> add_sparse_rows_cuda(const Stream&, Workspace, const TableProblem&,
                                                      const Operands&);
std::size_t add_rows_cuda_workspace(const TableProblem&);  // of both

// Why the CUDA kernels that sort, or read bags, cannot serve; "" where they can.
std::string table_cuda_refusal(const TableProblem&);

}  // namespace planck
