// How far a restored tensor is from the original, in f64.
//
//   SQNR = 10 log10( sum x² / sum (x − y)² ) dB        max abs error = max |x − y|
//
// Over the elements whose original is finite; the others are counted. Sums run over chunks of a
// fixed length, each in eight lanes, added up in order: the number of threads changes no bit.
#pragma once

#include <cstdint>

#include "planck/core/stream.h"
#include "planck/core/view.h"

namespace planck::cli {

struct QuantizationError {
  double signal = 0, noise = 0, max_abs = 0;
  std::int64_t non_finite = 0;

  void add(const QuantizationError& part);
  double sqnr_db() const;  // +infinity where nothing was lost
};

// x, y: row-major host views of one float dtype and shape. The stream lends its threads.
QuantizationError quantization_error(const Stream& stream, const View& x, const View& y);

}  // namespace planck::cli
