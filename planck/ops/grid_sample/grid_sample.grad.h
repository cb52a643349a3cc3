// Gradients of grid_sample and affine_grid.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/grid_sample/grid_sample.functions.h"

namespace planck {

template <class R>
auto pullback(const GridSample& op, const R& r) {
  return [op, input = in<0>(r), grid = in<1>(r)](auto& g) {
    if (g.needs(0) && g.needs(1)) {
      auto [dinput, dgrid] = call(GridSampleBackward<true, true>{op}, g.dy(), g[input], g[grid]);
      g.give(0, dinput);
      g.give(1, dgrid);
    } else if (g.needs(0)) {
      g.give(0, call(GridSampleBackward<true, false>{op}, g.dy(), g[input], g[grid]));
    } else {
      g.give(1, call(GridSampleBackward<false, true>{op}, g.dy(), g[input], g[grid]));
    }
  };
}
template <bool Input, bool Grid, class R>
auto pullback(const GridSampleBackward<Input, Grid>&, const R&) {
  return no_pullback("grid_sample has no second derivative");
}
template <class R>
auto pullback(const AffineGrid& op, const R&) {
  return [op](auto& g) { g.give(call(AffineGridBackward{op}, g.dy())); };
}
template <class R>
auto pullback(const AffineGridBackward& op, const R&) {
  return [op](auto& g) { g.give(call(op.forward, g.dy())); };
}

}  // namespace planck
