// layer_norm and rms_norm on tensors, over the trailing axes.
#pragma once

#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/norm/norm.ops.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

namespace norm_detail {

inline unsigned trailing(int rank, int axes) { return ((1u << axes) - 1) << (rank - axes); }

// 1 / √(mean of squares + eps), of x already centered where that is wanted.
template <class B>
Tensor<B> inverse_deviation(const Tensor<B>& centered, unsigned axes, double eps) {
  return rsqrt(call(Mean{axes}, square(centered)) + eps);
}

template <bool Centered, bool Weighted, bool Biased, class B, class... Rest>
Tensor<B> norm(int axes, double eps, const Tensor<B>& x, const Rest&... rest) {
  const Norm<Centered, Weighted, Biased> op{axes, eps};
  if constexpr (B::template applies<Norm<Centered, Weighted, Biased>>) {
    return std::get<0>(call(op, x, rest...));
  } else {
    const unsigned along = trailing(x.rank(), axes);
    Tensor<B> y = x;
    if constexpr (Centered) y = x - call(Mean{along}, x);
    y = y * inverse_deviation(y, along, eps);
    const auto all = std::tie(rest...);
    if constexpr (Weighted) y = y * std::get<0>(all);
    if constexpr (Biased) y = y + std::get < Weighted ? 1 : 0 > (all);
    return y;
  }
}

template <class B>
int axes_of(std::string_view op, const Tensor<B>& x, const Tensor<B>& weight) {
  const int axes = weight.rank();
  bool fits = axes > 0 && axes <= x.rank();
  for (int d = 0; fits && d < axes; ++d) fits = weight.shape()[d] == x.shape()[x.rank() - axes + d];
  if (!fits)
    refuse("{}: weight has shape {}, x {}: it must be x's last axes",
           {op, weight.shape(), x.shape()});
  return axes;
}

}  // namespace norm_detail

// (x − mean) / √(var + eps), over as many trailing axes as weight has, times weight plus bias
template <class B>
Tensor<B> layer_norm(const Tensor<B>& x, const Tensor<B>& weight, const Tensor<B>& bias,
                     double eps = 1e-5) {
  return norm_detail::norm<true, true, true>(norm_detail::axes_of("layer_norm", x, weight), eps, x,
                                             weight, bias);
}
// Without weight and bias, over the given number of trailing axes.
template <class B>
Tensor<B> layer_norm(const Tensor<B>& x, int axes = 1, double eps = 1e-5) {
  return norm_detail::norm<true, false, false>(axes, eps, x);
}
// x / √(mean of x² + eps), over as many trailing axes as weight has, times weight
template <class B>
Tensor<B> rms_norm(const Tensor<B>& x, const Tensor<B>& weight, double eps = 1e-5) {
  return norm_detail::norm<false, true, false>(norm_detail::axes_of("rms_norm", x, weight), eps, x,
                                               weight);
}

}  // namespace planck
