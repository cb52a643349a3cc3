// The CUDA kernels of the matmul family, as host code sees them. Workspace sizes are also known to
// builds without CUDA.
#pragma once

#include <utility>

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

// cuda:fma_chain; every dtype, any strides, no workspace
PLANCK_CUDA_LIBRARY Result<void> matmul_cuda(const Stream&, Workspace, const MatmulProblem&,
                                             const Operands&);

// cuda:warpgroups; bf16, f16, f32 as TF32, s8; any strides. The workspace has room for copies of A
// and B that lie along k, where the instruction takes no others, and for sums of parts of k of s8.
PLANCK_CUDA_LIBRARY Result<void> matmul_warpgroups(const Stream&, Workspace, const MatmulProblem&,
                                                   const Operands&);
std::string matmul_warpgroups_refusal(const MatmulProblem&);
std::size_t matmul_warpgroups_workspace(const MatmulProblem&);
// Parts that k of an s8 product is cut into; 1: none.
std::int64_t matmul_byte_parts(std::int64_t batches, std::int64_t m, std::int64_t n,
                               std::int64_t k);
// Where the parts of its workspace begin, in bytes: copies of A and B, sums of parts of k.
struct WarpgroupsLayout {
  std::size_t a = 0, b = 0, sums = 0, bytes = 0;
  explicit WarpgroupsLayout(const MatmulProblem&);
};

// cuda:mma_sync; bf16, f16, f32 as TF32, s8; any strides, no workspace
std::string matmul_mma_sync_refusal(const MatmulProblem&);
PLANCK_CUDA_LIBRARY Result<void> matmul_mma_sync(const Stream&, Workspace, const MatmulProblem&,
                                                 const Operands&);

// cuda:integer_lanes; bf16, f16, f32 as TF32, any GPU: the formula itself
PLANCK_CUDA_LIBRARY Result<void> matmul_integer_lanes(const Stream&, Workspace,
                                                      const MatmulProblem&, const Operands&);

// cuda:digits; f32
std::string matmul_digits_refusal(const MatmulProblem&);
PLANCK_CUDA_LIBRARY Result<void> matmul_digits(const Stream&, Workspace, const MatmulProblem&,
                                               const Operands&);
std::size_t matmul_digits_workspace(const MatmulProblem&);

// cuda:residues; f32
std::string matmul_residues_refusal(const MatmulProblem&);
PLANCK_CUDA_LIBRARY Result<void> matmul_residues(const Stream&, Workspace, const MatmulProblem&,
                                                 const Operands&);
std::size_t matmul_residues_workspace(const MatmulProblem&);
bool matmul_residues_are_faster(const MatmulProblem&);

// Where the parts of their workspaces begin, in bytes: planes of bytes, largest magnitudes and
// exponents of rows and columns, bounds of their sums of squares.
struct CutLayout {
  std::int64_t rows_a, rows_b;  // of all batches
  std::int64_t depth;           // k, filled up to 16
  std::size_t a, b, largest_a, largest_b, squares_a, squares_b, exponents_a, exponents_b, bytes;
  CutLayout(const MatmulProblem&, int planes);
  void transpose() {  // B's parts are A's
    std::swap(rows_a, rows_b), std::swap(a, b), std::swap(largest_a, largest_b);
    std::swap(squares_a, squares_b), std::swap(exponents_a, exponents_b);
  }

 protected:
  std::size_t add(std::int64_t bytes_wanted);  // one more part
};
// And what blocks leave waiting between passes, and what parts of tiles that are cut along k add
// up to; none where the shape asks for no cut.
struct DigitsLayout : CutLayout {
  std::size_t waiting, cut;
  explicit DigitsLayout(const MatmulProblem&);
  static constexpr std::int64_t kMostBlocks = 144;
};
// And a block's residues of a tile of C.
struct ResiduesLayout : CutLayout {
  std::size_t residues;
  explicit ResiduesLayout(const MatmulProblem&);
  static constexpr std::int64_t kMostBlocks = 144;
};

// cuda:integers; f32, any GPU
PLANCK_CUDA_LIBRARY Result<void> matmul_integers(const Stream&, Workspace, const MatmulProblem&,
                                                 const Operands&);
std::size_t matmul_integers_workspace(const MatmulProblem&);

// cuda:cublaslt; floats
std::string matmul_cublaslt_refusal(const MatmulProblem&);
PLANCK_CUDA_LIBRARY Result<void> matmul_cublaslt(const Stream&, Workspace, const MatmulProblem&,
                                                 const Operands&);
std::size_t matmul_cublaslt_workspace(const MatmulProblem&);

// Where the parts of cuda:cublaslt's workspace begin, in bytes: dense copies of A, B and C, and
// what the library itself may use.
struct CublasltLayout {
  std::size_t a, b, c, own, bytes;
  explicit CublasltLayout(const MatmulProblem&);
  static constexpr std::size_t kOwn = std::size_t{32} << 20;
};

}  // namespace planck
