// Elementwise loops on the device over operands of any strides.
//
//   flat     every operand is contiguous and whole packs long: no positions to compute
//   rows     two axes, and every operand is contiguous or constant along the inner one, of whole
//            packs: a row or a column that is broadcast. One division per pack
//   packs    the same for more axes, 64-bit positions and one axis of any length
//   strided  everything else, one element at a time
// A thread moves one or two packs of each operand, of 16 bytes where it is widest.
//
// Packs per thread, 2^26 elements on an H200, share of a bare copy:
//                         f32                      bf16
//                           1      2      4          1      2      4
//   flat   add            1.06   1.05   1.05       1.08   1.09   0.98
//          mul_scalar     1.02   0.99   0.98       1.03   1.00   1.00
//          exp            1.04   1.00   0.99       1.00   0.98   0.97
//          tanh           0.99   0.99   0.97       0.88   0.99   0.93
//          gelu           0.98   0.97              0.88   0.95   0.91
//          log            0.96   0.99   0.97       0.90   0.97   0.92
//          sin            0.87   0.98   0.98       0.82   0.94   0.82
//          pow            0.95   0.98              0.93   0.99
//           of x > 0      0.99   0.99              1.00   0.99
//   rows   add a row      0.99   0.97   0.97       1.00   0.90   0.63
//          add a column   0.89   0.98   0.97       0.98   0.89   0.62
//   packs  add a row      0.87   0.93   0.97       0.85   0.80   0.54
//          add a column   0.73   0.84   0.94       0.83   0.79   0.54
// Before there was a flat kernel, and short functions (math/narrow.h), gelu was at 0.65 and 0.35,
// tanh at 0.79 and 0.47. Functions are bound by their instructions: 16-bit elements leave time for
// 26 per element, 32-bit ones for 52.
#pragma once

#include "planck/ops/elementwise/cuda/map.kernels.cuh"

namespace planck::elementwise_device {

// The nest of a problem in the order of its output's memory.
struct Call {
  Nest nest;
  int inputs;
  std::size_t bytes[kOperands];  // of an element
  void* base[kOperands];         // where position 0 is
};
Call call_of(const ElementwiseProblem& p, const Operands& operands);
// In packs of V elements; false where the operands do not allow it.
bool packs_map(const Call& call, int V, Map& map);
// Whether a map of packs is a flat one.
bool flat_map(const Map& map, Flat& flat);
bool rows_map(const Map& map, Rows& rows);
Map strided_map(const Call& call);

// Bytes of the widest operand, and with them the elements of a pack and the packs of a thread.
template <class T>
inline constexpr int kStored = static_cast<int>(sizeof(T));
template <>
inline constexpr int kStored<None> = 1;
template <class Fn>
inline constexpr int kWidest = [] {
  int widest = 1;
  for (int s : {kStored<typename Fn::A>, kStored<typename Fn::B>, kStored<typename Fn::C>,
                kStored<typename Fn::Out>})
    widest = s > widest ? s : widest;
  return widest;
}();
constexpr int packs_of(int bytes) { return bytes < 4 ? 1 : 2; }

template <class Fn>
Result<void> launch_map(const Stream& stream, const Call& call, const Fn& fn) {
  constexpr int V = 16 / kWidest<Fn>, K = packs_of(kWidest<Fn>);
  constexpr int kFlat = 2;
  Map map;
  if (packs_map(call, V, map)) {
    if (Flat flat = {}; flat_map(map, flat)) {
      const auto kernel = [] {
        if constexpr (kHasWords<Fn>)
          return flat_words_kernel<Fn, V, kFlat>;
        else
          return flat_kernel<Fn, V, kFlat>;
      }();
      return launch(stream, "elementwise flat", kernel, ceil_div(map.count, kThreads * kFlat),
                    kThreads, flat, fn);
    }
    if (Rows rows = {}; rows_map(map, rows))
      return launch(stream, "elementwise rows", rows_kernel<Fn, V, K>,
                    ceil_div(map.count, kThreads * K), kThreads, rows, fn);
    return launch(stream, "elementwise packs", packs_kernel<Fn, V, K>,
                  ceil_div(map.count, kThreads * K) + (map.tail > 0 ? 1 : 0), kThreads, map, fn);
  }
  map = strided_map(call);
  return launch(stream, "elementwise strided", strided_kernel<Fn>,
                ceil_div(map.count, kThreads * 2), kThreads, map, fn);
}

}  // namespace planck::elementwise_device
