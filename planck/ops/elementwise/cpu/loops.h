// The loops of the elementwise family over short dense arrays, one per op and compute type,
// and what brings portions of memory to them. One table per instruction set.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/ops/elementwise/elementwise.math.h"

namespace planck::elementwise_cpu {

// The scalars of a problem in every type a loop may want.
struct LoopScalars {
  elementwise_math::Scalars<float> f32;
  elementwise_math::Scalars<double> f64;
  elementwise_math::Scalars<std::int32_t> i32;
  elementwise_math::Scalars<std::int64_t> i64;
  std::uint64_t bits = 0;  // of `value` in the output's dtype: mask_fill, fill
};

// n elements of compute types; y may not overlap the inputs. Inputs an op does not have are null.
using Loop = void (*)(const void* a, const void* b, const void* c, void* y, int n,
                      const LoopScalars& s);

// By ElementwiseOp; null where an op does not know the type.
struct LoopTable {
  std::array<Loop, kElementwiseOps> loop{};
};
const LoopTable& f32_loops();
const LoopTable& f64_loops();

// Over at most kChunk stored numbers, for the functions that are shorter in 16 bits.
struct HalfLoops {
  LoopTable f16, bf16;
};
const HalfLoops& half_loops();

// Everything else.
struct OtherLoops {
  LoopTable i32, i64, boolean;
  std::array<LoopTable, 4> bits;            // where, mask_fill, copy, fill: of 1, 2, 4, 8 bytes
  std::array<std::array<Loop, 9>, 9> cast;  // [from][to], by Dtype
  // Elements of 2^size bytes between memory of any stride and dense arrays.
  std::array<void (*)(const void* from, std::int64_t stride, int n, void* to), 4> gather;
  std::array<void (*)(const void* from, int n, void* to, std::int64_t stride), 4> scatter;
};
const OtherLoops& other_loops();

inline std::size_t size_class(Dtype t) {
  return static_cast<std::size_t>(std::countr_zero(storage_bytes(t)));
}

// A portion of dense operands.
struct Portion {
  Loop loop;
  int inputs, n;
  std::array<Source, 3> in;
  Sink out;
  bool widens;  // 16-bit floats are f32 for the loop
  const LoopScalars* scalars;
  std::array<bool, 3> repeats = {};  // the input is one value, kStep times
};
using RunPortion = void (*)(const Portion&);
RunPortion run_portion();

// Vectors from memory to memory, without a loop; by ElementwiseOp, null where there is a loop only.
struct PortionTable {
  std::array<RunPortion, kElementwiseOps> run{};
};
const PortionTable& f32_portions();
const PortionTable& f16_portions();
const PortionTable& bf16_portions();

// Dense elements [begin, begin + n) of a logical order to `y`, of the compute type: arange (f64 and
// i64) and random numbers (f32 and f64). n <= kPortion.
struct Sequence {
  ElementwiseOp op;
  LoopScalars scalars;
  std::uint64_t seed, offset;
};
using MakeSequence = void (*)(const Sequence&, bool wide, std::int64_t begin, int n, void* y);
MakeSequence make_sequence();

}  // namespace planck::elementwise_cpu
