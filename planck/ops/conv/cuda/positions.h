// What a convolution's sums run over, as the device walks it: three digits of one number.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck::conv_detail {

struct Position {
  int outer, middle, inner;
};

// Numbers (outer · middle + m) · inner + i: taps of channels, or places of images.
struct Positions {
  int middle, inner;

  PLANCK_HD Position of(std::int64_t number) const {
    const std::int64_t line = number / inner;
    return {static_cast<int>(line / middle), static_cast<int>(line % middle),
            static_cast<int>(number % inner)};
  }
  PLANCK_HD void next(Position& p) const {
    if (++p.inner < inner) return;
    p.inner = 0;
    if (++p.middle < middle) return;
    p.middle = 0;
    ++p.outer;
  }
  PLANCK_HD void advance(Position& p, const Position& by) const {
    p.inner += by.inner;
    p.middle += by.middle;
    p.outer += by.outer;
    if (p.inner >= inner) p.inner -= inner, ++p.middle;
    if (p.middle >= middle) p.middle -= middle, ++p.outer;
  }
};

}  // namespace planck::conv_detail
