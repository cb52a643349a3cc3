// The scale (and zero point) of a group with the least squared error, instead of the one whose
// range holds every value.
//
//   candidates    s_k = s_0 · (1 − k · step), k = 0, 1, …: s_0 and its zero point are those of
//                 dynamic_quantize, the others come from a range shrunk alike at both ends; then
//                 the least-squares scale of the best one's codes, Σ x t / Σ t², where that is
//                 better
//   error         Σ (x − s t)²,  t = clamp(rint(x · (1/s)), q_min − z, q_max − z)
//
// Every scale is rounded to the tensor's dtype before it is tried. The first of equals wins. Values
// that are not finite count as 0. Sums run in sixteen lanes over chunks of 1,024: the same choice
// on every machine and thread. What is chosen is never worse than s_0.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck {

inline constexpr int kScaleCandidates = 10;

struct SearchedGroup {
  double scale = 1;  // exactly as the dtype stores it
  std::int32_t zero_point = 0;
  double first_scale = 1;  // s_0 and its zero point
  std::int32_t first_zero_point = 0;
  double before = 0, after = 0;  // squared errors of s_0 and of what was chosen
};

// Floats of 32 or 16 bits as f32, those that are not finite as 0: what a search is given.
void finite_values(Dtype dtype, const void* x, std::int64_t n, float* out);

struct ScaleSearch {
  Dtype element = Dtype::f32;  // of the tensor: what scales are rounded to
  bool symmetric = true;
  std::int32_t q_min = -128, q_max = 127;

  // One group. C is f64 for f64 tensors, else f32; x is finite.
  SearchedGroup group(const float* x, std::int64_t n) const;
  SearchedGroup group(const double* x, std::int64_t n) const;

  // In steps, for groups that do not lie in one piece: the candidates of a range, and the errors of
  // each on a part of the group. lo <= 0 <= hi.
  struct Candidates {
    double scale[kScaleCandidates];
    std::int32_t zero_point[kScaleCandidates];
  };
  Candidates candidates(double lo, double hi) const;
  void add_errors(const Candidates& all, const float* x, std::int64_t n, double* errors) const;
  void add_errors(const Candidates& all, const double* x, std::int64_t n, double* errors) const;
};

}  // namespace planck
