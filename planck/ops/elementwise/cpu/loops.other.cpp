// Loops of the elementwise family that are not arithmetic of floats: integers, booleans, casts,
// selection, and elements of any stride.
#include "planck/ops/elementwise/cpu/loops.h"

#include <cstring>

#include "planck/loops/cpu/targets.h"
#include "planck/ops/elementwise/cast.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/loops.other.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/elementwise/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

using elementwise_cpu::OtherLoops;

// ---- bits of 1, 2, 4, 8 bytes ----

template <class U>
void where_loop(const void* a, const void* b, const void* c, void* y, int n, const LoopScalars&) {
  const std::uint8_t* HWY_RESTRICT condition = static_cast<const std::uint8_t*>(a);
  const U* HWY_RESTRICT left = static_cast<const U*>(b);
  const U* HWY_RESTRICT right = static_cast<const U*>(c);
  U* HWY_RESTRICT out = static_cast<U*>(y);
  for (int i = 0; i < n; ++i) {
    const U l = left[i], r = right[i];
    out[i] = condition[i] != 0 ? l : r;
  }
}
template <class U>
void mask_fill_loop(const void* a, const void* b, const void*, void* y, int n,
                    const LoopScalars& s) {
  const U* HWY_RESTRICT in = static_cast<const U*>(a);
  const std::uint8_t* HWY_RESTRICT mask = static_cast<const std::uint8_t*>(b);
  U* HWY_RESTRICT out = static_cast<U*>(y);
  const U value = static_cast<U>(s.bits);
  for (int i = 0; i < n; ++i) {
    const U x = in[i];
    out[i] = mask[i] != 0 ? value : x;
  }
}
template <class U>
void copy_loop(const void* a, const void*, const void*, void* y, int n, const LoopScalars&) {
  std::memcpy(y, a, static_cast<std::size_t>(n) * sizeof(U));
}
template <class U>
void fill_loop(const void*, const void*, const void*, void* y, int n, const LoopScalars& s) {
  U* HWY_RESTRICT out = static_cast<U*>(y);
  for (int i = 0; i < n; ++i) out[i] = static_cast<U>(s.bits);
}
template <class U>
constexpr LoopTable bits_table() {
  LoopTable t;
  t.loop[static_cast<std::size_t>(ElementwiseOp::where)] = &where_loop<U>;
  t.loop[static_cast<std::size_t>(ElementwiseOp::mask_fill)] = &mask_fill_loop<U>;
  t.loop[static_cast<std::size_t>(ElementwiseOp::copy)] = &copy_loop<U>;
  t.loop[static_cast<std::size_t>(ElementwiseOp::fill)] = &fill_loop<U>;
  return t;
}

template <class U>
void gather_loop(const void* from, std::int64_t stride, int n, void* to) {
  const U* HWY_RESTRICT in = static_cast<const U*>(from);
  U* HWY_RESTRICT out = static_cast<U*>(to);
  if (stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(U));
  } else if (stride == 0) {
    const U value = *in;
    for (int i = 0; i < n; ++i) out[i] = value;
  } else {
    for (int i = 0; i < n; ++i) out[i] = in[i * stride];
  }
}
template <class U>
void scatter_loop(const void* from, int n, void* to, std::int64_t stride) {
  const U* HWY_RESTRICT in = static_cast<const U*>(from);
  U* HWY_RESTRICT out = static_cast<U*>(to);
  if (stride == 1)
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(U));
  else
    for (int i = 0; i < n; ++i) out[i * stride] = in[i];
}

// ---- casts ----

// A stored element; a bool is any byte.
template <class T>
struct Stored {
  using type = T;
};
template <>
struct Stored<bool> {
  using type = std::uint8_t;
};

template <class S, class D>
void cast_loop(const void* a, const void*, const void*, void* y, int n, const LoopScalars&) {
  const auto* HWY_RESTRICT in = static_cast<const typename Stored<S>::type*>(a);
  auto* HWY_RESTRICT out = static_cast<typename Stored<D>::type*>(y);
  for (int i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<S, bool>)
      out[i] = static_cast<typename Stored<D>::type>(em::cast_to<D>(in[i] != 0));
    else
      out[i] = static_cast<typename Stored<D>::type>(em::cast_to<D>(in[i]));
  }
}
template <class S, class... D>
constexpr std::array<Loop, 9> casts_from() {
  return {&cast_loop<S, D>...};
}
template <class... T>
constexpr std::array<std::array<Loop, 9>, 9> all_casts() {
  return {casts_from<T, T...>()...};
}

}  // namespace

const OtherLoops* other_loop_table() {
  using u8 = std::uint8_t;
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
  static constexpr OtherLoops kLoops = {
      table_of<std::int32_t, em::IntegerUnary, em::IntegerBinary>(),
      table_of<std::int64_t, em::IntegerUnary, em::IntegerBinary>(),
      table_of<u8, em::BooleanUnary, em::BooleanBinary>(),
      {bits_table<u8>(), bits_table<u16>(), bits_table<u32>(), bits_table<u64>()},
      // in the order of Dtype
      all_casts<double, float, f16, bf16, std::int64_t, std::int32_t, std::int8_t, u8, bool>(),
      {gather_loop<u8>, gather_loop<u16>, gather_loop<u32>, gather_loop<u64>},
      {scatter_loop<u8>, scatter_loop<u16>, scatter_loop<u32>, scatter_loop<u64>}};
  return &kLoops;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(other_loop_table);

const OtherLoops& other_loops() {
  static const OtherLoops& loops = *HWY_DYNAMIC_DISPATCH(other_loop_table)();
  return loops;
}

}  // namespace planck::elementwise_cpu
#endif
