#include "planck/loops/rows/cpu/map.h"

#include <algorithm>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/rows/cpu/map.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/rows/cpu/exponentials-inl.h"
#include "planck/loops/rows/cpu/lift-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

// Which operands a function reads: bits 0, 1, 2.
template <class Op, unsigned kReads, class C>
void map_of(const Source* (&operands)[3], int n, const row_math::Shared<C>& shared,
            C* HWY_RESTRICT out) {
  alignas(64) C raw[3][kStep];
  const row_math::Shared<C> s = shared;
  for_steps(0, n, [&](int i, int m) {
    const C* in[3];
    for (int k = 0; k < 3; ++k)
      in[k] = (kReads >> k) & 1u ? elements<C>(*operands[k], i, m, raw[k]) : raw[k];
    const C *HWY_RESTRICT x = in[0], *HWY_RESTRICT y = in[1], *HWY_RESTRICT z = in[2];
    C* HWY_RESTRICT to = out + i;
    for (int c = 0; c < m; c += kChunk) {
      for (int k = 0; k < 3; ++k)
        if (((kReads >> k) & 1u) && operands[k]->dtype == dtype_of<C>)
          prefetch_ahead(in[k] + c, operands[k]->ahead);
      const int end = std::min(m, c + kChunk);
      for (int k = c; k < end; ++k)
        to[k] = Op::of(kReads & 1u ? x[k] : C(0), kReads & 2u ? y[k] : C(0),
                       kReads & 4u ? z[k] : C(0), s);
    }
  });
}

template <class C>
void map(RowMap how, const Source* (&operands)[3], int n, const row_math::Shared<C>& s, C* out) {
  namespace m = row_math;
  switch (how) {
    case RowMap::exponential:
      return map_of<m::Exponential, 1>(operands, n, s, out);
    case RowMap::term:
      return map_of<m::Term, 1>(operands, n, s, out);
    case RowMap::scaled:
      return map_of<m::Scaled, 1>(operands, n, s, out);
    case RowMap::softmax:
      return map_of<m::Softmax, 1>(operands, n, s, out);
    case RowMap::log_softmax:
      return map_of<m::LogSoftmax, 1>(operands, n, s, out);
    case RowMap::product:
      return map_of<m::Product, 3>(operands, n, s, out);
    case RowMap::softmax_backward:
      return map_of<m::SoftmaxBackward, 3>(operands, n, s, out);
    case RowMap::log_softmax_backward:
      return map_of<m::LogSoftmaxBackward, 3>(operands, n, s, out);
    case RowMap::entropy_backward:
      return map_of<m::EntropyBackward, 1>(operands, n, s, out);
    case RowMap::normalized:
      return map_of<m::Normalized, 7>(operands, n, s, out);
    case RowMap::weighted:
      return map_of<m::Weighted, 6>(operands, n, s, out);
    case RowMap::weighted_hat:
      return map_of<m::WeightedHat, 7>(operands, n, s, out);
    case RowMap::hat_term:
      return map_of<m::HatTerm, 3>(operands, n, s, out);
    case RowMap::second:
      return map_of<m::Second, 2>(operands, n, s, out);
    case RowMap::norm_backward:
      return map_of<m::NormBackward, 7>(operands, n, s, out);
    case RowMap::first:
      return map_of<m::First, 1>(operands, n, s, out);
    case RowMap::square:
      return map_of<m::Square, 1>(operands, n, s, out);
  }
}

template <class C>
void put(const C* HWY_RESTRICT values, int n, const Sink& to) {
  const int lead = std::min(n, lead_of(to));
  const auto step = [&](int i, int m) {
    alignas(64) C canonical[kStep];
    for (int k = 0; k < m; ++k) canonical[k] = math::canonical(values[i + k]);
    store_step(to, i, m, canonical);
  };
  if (lead > 0) step(0, lead);
  for_steps(lead, n, step);
}

template <class C>
inline constexpr RowLoops<C> kRowLoops = {.map = map<C>, .put = put<C>};
#if PLANCK_VECTOR_MATH
template <>
inline constexpr RowLoops<float> kRowLoops<float> = {.map = map<float>,
                                                     .put = put<float>,
                                                     .sum = row_vectors::sum,
                                                     .write = row_vectors::write,
                                                     .exponentials = row_vectors::exponentials,
                                                     .terms = row_vectors::terms,
                                                     .softmax = row_vectors::softmax};
#endif

}  // namespace

const RowLoops<float>* row_loops_f32() { return &kRowLoops<float>; }
const RowLoops<double>* row_loops_f64() { return &kRowLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(row_loops_f32);
HWY_EXPORT(row_loops_f64);

template <>
const RowLoops<float>& row_loops<float>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(row_loops_f32)();
  return table;
}
template <>
const RowLoops<double>& row_loops<double>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(row_loops_f64)();
  return table;
}

}  // namespace planck
#endif
