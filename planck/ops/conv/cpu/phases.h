// conv2d and conv2d_input as products of a matrix of weights and a matrix of patches.
//
//   conv2d        row f, column (n, i, j), k = (c, u, v). One phase.
//   conv2d_input  row c, column (n, h, w), k = (f, u, v). A row h of dx meets those rows u of the
//                 kernel for which h + padding - u * dilation is a multiple of the stride: the same
//                 ones for all h of one remainder. So there are stride × stride phases, each a
//                 product of its own, without the zeros between elements of dy.
#pragma once

#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/conv/cpu/image.h"

namespace planck::conv_detail {

struct Phase {
  std::int64_t rows, columns;  // places of the output in an image
  std::int64_t first[2];       // output row and column of the first, which lie `apart` each
  std::int64_t depth;          // k
};

class Phases {
 public:
  explicit Phases(const ConvProblem& p);

  bool forward() const { return p_.kind == ConvKind::conv2d; }
  std::int64_t count() const { return down_ * across_; }
  Phase phase(std::int64_t index) const;
  std::int64_t apart(int axis) const {
    return forward() ? 1 : p_.options.stride[std::size_t(axis)];
  }

  // The product's rows in a group, and k, of all phases together.
  std::int64_t rows() const { return forward() ? p_.filters() : p_.channels(); }
  std::int64_t depth() const { return (forward() ? p_.channels() : p_.filters()) * p_.taps(); }

  // Of the image that is read: x, or dy.
  const ImageLayout& layout() const { return layout_; }
  std::int64_t channels_in_group() const { return forward() ? p_.channels() : p_.filters(); }
  std::int64_t row_step() const { return forward() ? p_.options.stride[0] : 1; }

  // For each k: where the image's element lies from place (0, 0), and the weight's from row 0.
  void tables(const Phase& phase, const Strides& weight, std::int64_t* image,
              std::int64_t* weights) const;

 private:
  // Whether kernel row (column) u meets the output's `first`.
  bool meets(int axis, std::int64_t first, std::int64_t u) const;
  // The image's row (column), in the copy, for output row (column) `first`.
  std::int64_t place(int axis, std::int64_t first, std::int64_t u) const;

  const ConvProblem& p_;
  std::int64_t down_ = 1, across_ = 1;
  ImageLayout layout_;
};

}  // namespace planck::conv_detail
