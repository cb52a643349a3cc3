// affine_grid and its backward on the CPU: positions in portions, coordinates made row by row.
//
// Backward, every entry of dtheta is a sum over positions in the pairwise order: portions of 1,024
// are summed as trees, spans of 64 Ki by tasks, and both are merged like the digits of a binary
// counter.
#include <algorithm>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/nest.h"
#include "planck/loops/parallel.h"
#include "planck/math/pairwise_sum.h"
#include "planck/ops/grid_sample/cpu/kernels.h"
#include "planck/ops/grid_sample/cpu/sample_loops.h"

namespace planck {

namespace {

constexpr std::int64_t kSpan = 1 << 16;  // positions of a task
constexpr int kMaxTheta = 12;            // entries of one image's theta

// Operands and extents of a problem, both ways.
struct Affine {
  int dims;
  bool align;
  std::int64_t batch, extent[3] = {1, 1, 1};  // depth, height, width
  View theta, grid;
  Walk walk;  // over the grid's positions

  Affine(const AffineGridProblem& p, const View& theta_view, const View& grid_view)
      : dims(p.dims()),
        align(p.align_corners),
        batch(p.size[0]),
        theta(theta_view),
        grid(grid_view) {
    NestStrides all{}, stride{};
    for (int d = 0; d < dims; ++d) {
      extent[3 - dims + d] = p.size[2 + d];
      all[static_cast<std::size_t>(d)] = p.size[2 + d];
      stride[static_cast<std::size_t>(d)] = grid.strides[1 + d];
    }
    walk = walk_of(make_nest(dims, all, {&stride, 1}), 0);
  }

  std::int64_t positions() const { return extent[0] * extent[1] * extent[2]; }
  std::int64_t spans() const { return (positions() + kSpan - 1) / kSpan; }
  int entries() const { return dims * (dims + 1); }
  std::int64_t theta_offset(std::int64_t n, int i, int j) const {
    return n * theta.strides[0] + i * theta.strides[1] + j * theta.strides[2];
  }
  std::int64_t grid_offset(std::int64_t n, int i) const {
    return n * grid.strides[0] + i * grid.strides[dims + 1];
  }

  // x, y, z of positions [begin, begin + n).
  template <class C>
  void coordinates(std::int64_t begin, int n, C (*out)[kPortion]) const {
    for (int done = 0; done < n;) {
      const std::int64_t p = begin + done, x = p % extent[2];
      const std::int64_t y = p / extent[2] % extent[1], z = p / extent[2] / extent[1];
      const int length = static_cast<int>(std::min<std::int64_t>(n - done, extent[2] - x));
      for (int k = 0; k < length; ++k)
        out[0][done + k] = grid_sample_math::base_coordinate<C>(x + k, extent[2], align);
      std::fill_n(out[1] + done, length, grid_sample_math::base_coordinate<C>(y, extent[1], align));
      std::fill_n(out[2] + done, length, grid_sample_math::base_coordinate<C>(z, extent[0], align));
      done += length;
    }
  }
};

template <class C>
void forward(const Stream& stream, const Affine& a) {
  parallel_for(stream, a.batch * a.spans(), [&](std::int64_t task) {
    const std::int64_t image = task / a.spans(), first = task % a.spans() * kSpan;
    const std::int64_t end = std::min(a.positions(), first + kSpan);
    C theta[3][4];
    for (int i = 0; i < a.dims; ++i)
      for (int j = 0; j <= a.dims; ++j)
        load_portion(portion_ops(), a.theta.dtype, a.theta.data, a.theta_offset(image, i, j), 1, 1,
                     &theta[i][j]);
    alignas(64) C at[3][kPortion], values[kPortion];
    for (std::int64_t begin = first; begin < end; begin += kPortion) {
      const int n = static_cast<int>(std::min<std::int64_t>(kPortion, end - begin));
      a.coordinates(begin, n, at);
      for (int i = 0; i < a.dims; ++i) {
        const C* t = theta[i];
        if (a.dims == 2)
          for (int k = 0; k < n; ++k) values[k] = (t[0] * at[0][k] + t[1] * at[1][k]) + t[2];
        else
          for (int k = 0; k < n; ++k)
            values[k] = ((t[0] * at[0][k] + t[1] * at[1][k]) + t[2] * at[2][k]) + t[3];
        for (int k = 0; k < n; ++k) values[k] = grid_sample_math::canonical(values[k]);
        const C* from = values;
        a.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
          store_portion(portion_ops(), a.grid.dtype, a.grid.data, a.grid_offset(image, i) + offset,
                        stride, static_cast<int>(length), from);
          from += length;
        });
      }
    }
  });
}

template <class C>
void backward(const Stream& stream, const Affine& a, C* partial) {
  const SampleLoops<C>& loops = sample_loops<C>();
  parallel_for(stream, a.batch * a.spans(), [&](std::int64_t task) {
    const std::int64_t image = task / a.spans(), first = task % a.spans() * kSpan;
    const std::int64_t end = std::min(a.positions(), first + kSpan);
    PairwiseSum<C> sums[kMaxTheta];
    alignas(64) C at[3][kPortion], dgrid[kPortion], terms[kPortion];
    for (std::int64_t begin = first; begin < end; begin += kPortion) {
      const int n = static_cast<int>(std::min<std::int64_t>(kPortion, end - begin));
      a.coordinates(begin, n, at);
      for (int i = 0; i < a.dims; ++i) {
        C* to = dgrid;
        a.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
          load_portion(portion_ops(), a.grid.dtype, a.grid.data, a.grid_offset(image, i) + offset,
                       stride, static_cast<int>(length), to);
          to += length;
        });
        for (int j = 0; j <= a.dims; ++j) {
          for (int k = 0; k < n; ++k) terms[k] = j < a.dims ? dgrid[k] * at[j][k] : dgrid[k];
          sums[i * (a.dims + 1) + j].add(loops.tree_sum(terms, n));
        }
      }
    }
    for (int e = 0; e < a.entries(); ++e) partial[task * a.entries() + e] = sums[e].result();
  });
  for (std::int64_t n = 0; n < a.batch; ++n)
    for (int e = 0; e < a.entries(); ++e) {
      PairwiseSum<C> total;
      for (std::int64_t s = 0; s < a.spans(); ++s)
        total.add(partial[(n * a.spans() + s) * a.entries() + e]);
      const C sum = grid_sample_math::canonical(total.result());
      store_portion(portion_ops(), a.theta.dtype, a.theta.data,
                    a.theta_offset(n, e / (a.dims + 1), e % (a.dims + 1)), 1, 1, &sum);
    }
}

}  // namespace

std::size_t affine_grid_cpu_workspace(const AffineGridProblem& p) {
  if (!p.backward) return 0;
  std::int64_t positions = 1;
  for (int d = 2; d < p.size.rank(); ++d) positions *= p.size[d];
  return static_cast<std::size_t>(p.size[0] * ((positions + kSpan - 1) / kSpan) * p.dims() *
                                  (p.dims() + 1)) *
         storage_bytes(compute_dtype(p.dtype));
}

Result<void> affine_grid_cpu(const Stream& stream, Workspace workspace, const AffineGridProblem& p,
                             const Operands& operands) {
  using Forward = sample_operand::AffineGrid;
  using Backward = sample_operand::AffineGridBackward;
  if (p.backward) {
    const Affine a(p, operands[Backward::dtheta], operands[Backward::dgrid]);
    if (p.dtype == Dtype::f64)
      backward(stream, a, static_cast<double*>(workspace.data));
    else
      backward(stream, a, static_cast<float*>(workspace.data));
    return {};
  }
  const Affine a(p, operands[Forward::theta], operands[Forward::grid]);
  if (p.dtype == Dtype::f64)
    forward<double>(stream, a);
  else
    forward<float>(stream, a);
  return {};
}

}  // namespace planck
