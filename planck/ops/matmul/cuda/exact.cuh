// What cuda:digits and cuda:residues share: a product, or a run of batches with one stride, as its
// planes and arguments.
#pragma once

#include "planck/loops/gemm/cuda/exact_round.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/ops/matmul/cuda/cut.cuh"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck::matmul_device {

struct ExactRun {
  RowsToCut a, b;
  TensorOperand planes_a, planes_b;
  ExactArgs arguments{};

  // Planes are those of a workspace that begins with a CutLayout's parts.
  ExactRun(char* workspace, const CutLayout& at, int planes, const gemm::Geometry& g,
           std::int64_t batches, const std::int64_t (&strides)[gemm::kBatchOperands],
           const std::int64_t (&offsets)[gemm::kBatchOperands]) {
    const auto own = [&](int o) { return strides[o] != 0 ? batches : 1; };
    const auto part = [&]<class T>(T*& pointer, std::size_t where) {
      pointer = reinterpret_cast<T*>(workspace + where);
    };
    a.x = {static_cast<const float*>(g.a.data) + offsets[0],
           g.m,
           g.k,
           own(0),
           g.a.row,
           g.a.column,
           strides[0]};
    b.x = {static_cast<const float*>(g.b.data) + offsets[1],
           g.n,
           g.k,
           own(1),
           g.b.column,
           g.b.row,
           strides[1]};
    part(a.to, at.a), part(b.to, at.b);
    part(a.exponents, at.exponents_a), part(b.exponents, at.exponents_b);
    part(a.largest, at.largest_a), part(b.largest, at.largest_b);
    part(a.squares, at.squares_a), part(b.squares, at.squares_b);
    const auto operand = [&](const RowsToCut& c) {
      return TensorOperand{
          c.to, c.x.rows, at.depth, at.depth, 1, planes * c.x.batches, c.x.rows * at.depth};
    };
    planes_a = operand(a), planes_b = operand(b);
    ExactArgs& e = arguments;
    TensorArgs<float>& p = e.product;
    p.c = static_cast<float*>(g.c.data) + offsets[2];
    p.c_row = g.c.row, p.c_column = g.c.column, p.c_batch = strides[2];
    p.m = static_cast<int>(g.m), p.n = static_cast<int>(g.n), p.k = static_cast<int>(at.depth);
    p.c_packs = packs_rows(p);
    p.walk.batches = static_cast<int>(batches);
    p.a_batches = strides[0] != 0, p.b_batches = strides[1] != 0;
    e.product.follows = following<float>(g, offsets[3], strides[3]);
    e.a_exponents = a.exponents, e.b_exponents = b.exponents;
    e.a = a.x.data, e.b = b.x.data, e.k = g.k;
    e.a_row = g.a.row, e.a_k = g.a.column, e.b_column = g.b.column, e.b_k = g.b.row;
    e.a_batch = strides[0], e.b_batch = strides[1];
  }
};

// Calls f(layout, geometry, count, strides, offsets) for each run of batches.
// C lies along its rows.
template <class Layout, class F>
Result<void> each_exact_run(const Stream& stream, const MatmulProblem& p, const Operands& operands,
                            F&& f) {
  if (p.m == 0 || p.n == 0) return {};
  gemm::Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (p.k == 0) return matmul_cuda(stream, {}, p, operands);  // zeros
  Layout at(p);
  if (g.c.row == 1 && g.c.column != 1) g = g.transposed(), at.transpose();
  return each_run(g.batches, [&](std::int64_t count, const auto& strides, const auto& offsets) {
    return f(at, g, count, strides, offsets);
  });
}

}  // namespace planck::matmul_device
