// How far restored values are from the originals, in f64.
//
//   SQNR = 10 log10( sum x² / sum (x − y)² ) dB        max abs error = max |x − y|
//
// Over the elements whose original is finite; the others are counted. Differences are rounded to
// the type of arithmetic, f64 for f64 and else f32, whose squares are exact in f64. Sums run in
// sixteen lanes, added up in order: neither instruction sets nor threads change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/core/dtype.h"

namespace planck::cli {

struct QuantizationError {
  double signal = 0, noise = 0, max_abs = 0;
  std::int64_t non_finite = 0;

  void add(const QuantizationError& part);
  double sqnr_db() const;  // +infinity where nothing was lost
};

// Codes of elements, a byte each, and what restores them: y = s (q − z), rounded to the elements'
// dtype as the op dequantize does. Element i has the scale of channel (i / inner) % channels.
struct RestoredCodes {
  const std::byte* codes;
  bool is_signed;
  const void* scale;  // of the elements' dtype
  const std::int32_t* zero_point;
  std::int64_t channels, inner;
};

inline constexpr int kErrorLanes = 16;

// Adds up a unit, piece by piece: pieces of a multiple of kErrorLanes elements, but for the last.
class ErrorSum {
 public:
  void add(const float* x, const float* y, std::int64_t n);
  void add(Dtype dtype, const void* x, const RestoredCodes& y, std::int64_t n);
  QuantizationError total() const;

  struct Lanes {
    double signal[kErrorLanes] = {}, noise[kErrorLanes] = {}, most[kErrorLanes] = {};
    std::int64_t odd[kErrorLanes] = {};
  };

 private:
  Lanes lanes_;
};

}  // namespace planck::cli
