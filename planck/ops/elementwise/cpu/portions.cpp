// Portions of dense memory through the loops of the elementwise family, in steps that stay in the
// first-level cache; and portions of a sequence: arange, random numbers.
#include "planck/loops/cpu/targets.h"
#include "planck/math/random.h"
#include "planck/ops/elementwise/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/portions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

using elementwise_cpu::Portion;
using elementwise_cpu::Sequence;

bool is_half(Dtype t) { return t == Dtype::f16 || t == Dtype::bf16; }

// An input of a step as the loop sees it: where it is, or widened.
struct Lane {
  const std::byte* data;
  std::size_t size;
  bool in_place;
};
HWY_INLINE Lane lane_of(const Source& from, bool repeats, bool widens, int i, int m,
                        float* buffer) {
  if (repeats) i = 0;
  if (widens && is_half(from.dtype)) {
    const std::uint16_t* in = static_cast<const std::uint16_t*>(from.data) + i;
    from.dtype == Dtype::f16 ? widen_f16(in, m, buffer, from.ahead)
                             : widen_bf16(in, m, buffer, from.ahead);
    return {reinterpret_cast<const std::byte*>(buffer), sizeof(float), false};
  }
  const std::size_t size = storage_bytes(from.dtype);
  return {static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(i) * size, size,
          true};
}

void portion_run(const Portion& b) {
  alignas(64) float widened[3][kStep];
  alignas(64) std::byte result[kStep * sizeof(double)];
  const bool narrows = b.widens && is_half(b.out.dtype);
  const std::size_t out_size = narrows ? sizeof(float) : storage_bytes(b.out.dtype);
  const auto step = [&](int i, int m) {
    Lane lanes[3] = {};
    for (int k = 0; k < b.inputs; ++k)
      lanes[k] = lane_of(b.in[k], b.repeats[k], b.widens, i, m, widened[k]);
    for (int c = 0; c < m; c += kChunk) {
      const std::byte* p[3] = {};
      for (int k = 0; k < b.inputs; ++k) {
        const std::size_t bytes = lanes[k].size * kChunk;
        p[k] = lanes[k].data + static_cast<std::size_t>(c) * lanes[k].size;
        if (lanes[k].in_place && b.out.stream)  // long: see steps-inl.h
          for (std::size_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(p[k] + b.in[k].ahead + at);
      }
      b.loop(p[0], p[1], p[2], result + static_cast<std::size_t>(c) * out_size,
             m - c < kChunk ? m - c : kChunk, *b.scalars);
    }
    if (narrows) return store_step(b.out, i, m, reinterpret_cast<const float*>(result));
    put_bytes(static_cast<std::byte*>(b.out.data) + static_cast<std::size_t>(i) * out_size, result,
              static_cast<std::size_t>(m) * out_size, b.out.stream);
  };
  const int lead = b.n < lead_of(b.out) ? b.n : lead_of(b.out);
  if (lead > 0) step(0, lead);
  for_steps(lead, b.n, step);
}

// ---- sequences ----

void arange_f64(const Sequence& s, std::int64_t begin, int n, double* HWY_RESTRICT y) {
  const double start = s.scalars.f64.a, step = s.scalars.f64.b;
  for (int i = 0; i < n; ++i) y[i] = math::canonical(start + static_cast<double>(begin + i) * step);
}
void arange_i64(const Sequence& s, std::int64_t begin, int n, std::int64_t* HWY_RESTRICT y) {
  for (int i = 0; i < n; ++i)
    y[i] = elementwise_math::plus(s.scalars.i64.a,
                                  elementwise_math::times(begin + i, s.scalars.i64.b));
}

// Numbers of the counters that positions [begin, begin + n) fall on.
template <class T>
void random_numbers(const Sequence& s, const elementwise_math::Scalars<T>& scalars,
                    std::int64_t begin, int n, T* HWY_RESTRICT y) {
  using Numbers = RandomBlock<T>;
  constexpr int kCount = Numbers::kCount, kCounters = kPortion / kCount + 1;
  const PhiloxStream random{s.seed, s.offset};
  const auto first = static_cast<std::uint64_t>(begin / kCount);
  const int counters = static_cast<int>((begin + n + kCount - 1) / kCount - begin / kCount);
  std::uint32_t words[4][kCounters];
  T numbers[kCounters * kCount];
  for (int i = 0; i < counters; ++i) {
    const Philox4 w = random.words(first + static_cast<std::uint64_t>(i));
    for (int k = 0; k < 4; ++k) words[k][i] = w.v[k];
  }
  const auto draw = [&](auto make) {
    for (int i = 0; i < counters; ++i) {
      const Numbers v = make(Philox4{{words[0][i], words[1][i], words[2][i], words[3][i]}});
      for (int k = 0; k < kCount; ++k) numbers[i * kCount + k] = v.v[k];
    }
  };
  if (s.op == ElementwiseOp::random_normal)
    draw([](const Philox4& w) { return Numbers::normal(w); });
  else
    draw([](const Philox4& w) { return Numbers::uniform(w); });
  const T* in = numbers + begin % kCount;
  const T a = scalars.a, b = scalars.b;
  if (s.op == ElementwiseOp::random_normal)
    for (int i = 0; i < n; ++i) y[i] = math::canonical(a + in[i] * b);
  else if (s.op == ElementwiseOp::random_uniform)
    for (int i = 0; i < n; ++i) y[i] = math::canonical(a + in[i] * (b - a));
  else
    for (int i = 0; i < n; ++i) y[i] = in[i] < a ? T(1) : T(0);
}

void sequence_make(const Sequence& s, bool wide, std::int64_t begin, int n, void* y) {
  if (s.op == ElementwiseOp::arange)
    return wide ? arange_f64(s, begin, n, static_cast<double*>(y))
                : arange_i64(s, begin, n, static_cast<std::int64_t*>(y));
  if (wide) return random_numbers<double>(s, s.scalars.f64, begin, n, static_cast<double*>(y));
  random_numbers<float>(s, s.scalars.f32, begin, n, static_cast<float*>(y));
}

}  // namespace

const elementwise_cpu::RunPortion* run_portion_of_target() {
  static constexpr elementwise_cpu::RunPortion kRun = &portion_run;
  return &kRun;
}
const elementwise_cpu::MakeSequence* make_sequence_of_target() {
  static constexpr elementwise_cpu::MakeSequence kMake = &sequence_make;
  return &kMake;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(run_portion_of_target);
HWY_EXPORT(make_sequence_of_target);

RunPortion run_portion() {
  static const RunPortion run = *HWY_DYNAMIC_DISPATCH(run_portion_of_target)();
  return run;
}
MakeSequence make_sequence() {
  static const MakeSequence make = *HWY_DYNAMIC_DISPATCH(make_sequence_of_target)();
  return make;
}

}  // namespace planck::elementwise_cpu
#endif
