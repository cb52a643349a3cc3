// What the launchers of the gradients share.
#pragma once

#include "planck/loops/table/cuda/sorted_rows.cuh"

namespace planck::table_device {

inline unsigned long long* counter_of(const View& v) {
  return v.present ? static_cast<unsigned long long*>(v.data) : nullptr;
}

// Calls f with an element of the problem's dtype.
template <class F>
Result<void> with_element(Dtype element, const F& f) {
  switch (element) {
    case Dtype::f64:
      return f(double());
    case Dtype::f16:
      return f(f16());
    case Dtype::bf16:
      return f(bf16());
    default:
      return f(float());
  }
}

// Sums of rows of `source`, with the given number of axes before its columns, into rows of `out`.
template <class T>
SumRows<T> sums_into(const View& out, const IndexCall& c, const View& source, int axes) {
  SumRows<T> a = {};
  a.index = c.index;
  a.source.data = static_cast<const T*>(source.data);
  a.source.rows = FlatView::over(source, axes);
  a.source.column_stride = source.strides[axes];
  a.clear = c.layout.small ? ClearRows{} : c.clear;
  a.out = static_cast<T*>(out.data);
  a.row_stride = out.strides[0];
  a.column_stride = out.strides[1];
  a.columns = out.shape[1];
  return a;
}

}  // namespace planck::table_device
