// Plain and non-temporal stores, over the widest vectors of the machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/verify/bench/ceiling.cpu.cpp"
#include "planck/verify/bench/ceiling.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace planck::verify {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<std::uint64_t>;

// The part [step / steps, (step + 1) / steps) of a buffer, cut at multiples of 256 bytes.
struct Part {
  std::uint64_t* data;
  std::size_t words;
};
Part part_of(const Bytes& b, std::size_t step, std::size_t steps) {
  constexpr std::size_t kCut = 32;  // words
  const std::size_t cuts = b.count / 8 / kCut;
  const std::size_t begin = cuts * step / steps * kCut, end = cuts * (step + 1) / steps * kCut;
  return {static_cast<std::uint64_t*>(b.data) + begin, end - begin};
}

template <bool kStream>
void move_step(const Traffic& traffic, std::size_t step, std::size_t steps) {
  const Words d;
  const std::size_t lanes = hn::Lanes(d);
  auto a0 = hn::Set(d, step), a1 = a0, a2 = a0, a3 = a0;
  for (const Bytes& b : traffic.reads) {
    const Part p = part_of(b, step, steps);
    for (std::size_t i = 0; i < p.words; i += 4 * lanes) {
      a0 = hn::Xor(a0, hn::Load(d, p.data + i));
      a1 = hn::Xor(a1, hn::Load(d, p.data + i + lanes));
      a2 = hn::Xor(a2, hn::Load(d, p.data + i + 2 * lanes));
      a3 = hn::Xor(a3, hn::Load(d, p.data + i + 3 * lanes));
    }
  }
  a0 = hn::Xor(hn::Xor(a0, a1), hn::Xor(a2, a3));
  for (const Bytes& b : traffic.writes) {
    const Part p = part_of(b, step, steps);
    for (std::size_t i = 0; i < p.words; i += lanes) {
      if constexpr (kStream)
        hn::Stream(a0, d, p.data + i);
      else
        hn::Store(a0, d, p.data + i);
    }
  }
}

void move_part(const Traffic& traffic, std::size_t begin, std::size_t end, std::size_t steps,
               bool stream) {
  for (std::size_t s = begin; s < end; ++s)
    stream ? move_step<true>(traffic, s, steps) : move_step<false>(traffic, s, steps);
  if (stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace planck::verify
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>

namespace planck::verify {

HWY_EXPORT(move_part);

std::span<const std::string_view> ceiling_variants(DeviceKind device) {
  static constexpr std::array<std::string_view, 2> kCpu = {"stores", "non-temporal stores"};
  static constexpr std::array<std::string_view, 4> kCuda = {
      "plain", "streaming", "two vectors a thread", "two vectors a thread, streaming"};
  if (device == DeviceKind::cpu) return kCpu;
  return kCuda;
}

Result<void> move_bytes(const Stream& stream, const Traffic& traffic, std::size_t variant) {
  if (stream.device().kind == DeviceKind::cuda)
    return ceiling_detail::move_bytes_cuda(stream, traffic, variant);
  std::size_t largest = 0;
  for (const auto* side : {&traffic.reads, &traffic.writes})
    for (const Bytes& b : *side) largest = std::max(largest, b.count);
  constexpr std::size_t kStepBytes = 8192, kTasksPerThread = 8;
  const std::size_t steps = largest / kStepBytes + 1;
  const std::size_t tasks =
      stream.threads() == 1 ? 1 : static_cast<std::size_t>(stream.threads()) * kTasksPerThread;
  parallel_for(stream, static_cast<std::int64_t>(tasks), [&](std::int64_t i) {
    const auto task = static_cast<std::size_t>(i);
    HWY_DYNAMIC_DISPATCH(move_part)
    (traffic, steps * task / tasks, steps * (task + 1) / tasks, steps, variant == 1);
  });
  return {};
}

}  // namespace planck::verify
#endif
