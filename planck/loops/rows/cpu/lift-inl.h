// Dense elements of any dtype as the type they are computed in, for use inside a per-target
// namespace (include after planck/loops/cpu/steps-inl.h).
#if defined(PLANCK_REDUCE_LIFT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_LIFT_INL_H_
#undef PLANCK_REDUCE_LIFT_INL_H_
#else
#define PLANCK_REDUCE_LIFT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

// Elements [i, i + m) of a dense source: in place, or widened into `raw`.
template <class C>
HWY_INLINE const C* elements(const Source& from, int i, int m, C* raw) {
  if constexpr (std::is_same_v<C, float>)
    if (from.dtype != Dtype::f32) {
      const std::uint16_t* in = static_cast<const std::uint16_t*>(from.data) + i;
      from.dtype == Dtype::f16 ? widen_f16(in, m, raw, from.ahead)
                               : widen_bf16(in, m, raw, from.ahead);
      return raw;
    }
  return static_cast<const C*>(from.data) + i;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
