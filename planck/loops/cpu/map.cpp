#include "planck/loops/cpu/map.h"

#include <cstdlib>

namespace planck {

namespace {

std::size_t at(int k) { return static_cast<std::size_t>(k); }

// Moves axis d inwards to be the last but one; the order of all others is kept.
void move_next_to_last(Nest& nest, std::size_t d) {
  for (std::size_t e = d; e + 2 < at(nest.rank); ++e) {
    std::swap(nest.extent[e], nest.extent[e + 1]);
    for (int o = 0; o < nest.operands; ++o)
      std::swap(nest.stride[at(o)][e], nest.stride[at(o)][e + 1]);
  }
}

}  // namespace

// An input that jumps along the output's innermost axis and is contiguous along another one: that
// one becomes the rows of tiles.
bool Map::choose_tile(unsigned transposable) {
  const auto last = at(nest_.rank - 1);
  const auto jumps = [&](int k) {
    return ((transposable >> k) & 1u) && std::abs(nest_.stride[at(k)][last]) > 1;
  };
  for (int k = 0; k < nest_.operands; ++k) {
    if (!jumps(k)) continue;
    for (std::size_t d = last; d-- > 0;) {
      if (nest_.stride[at(k)][d] != 1 || nest_.extent[d] < 4) continue;
      move_next_to_last(nest_, d);
      for (int o = 0; o < nest_.operands; ++o)
        if (jumps(o) && nest_.stride[at(o)][last - 1] == 1) tiled_ |= 1u << o;
      return true;
    }
  }
  return false;
}

void Map::choose_mode(int output, int columns, unsigned transposable, bool pairs) {
  if (nest_.rank < 2 || nest_.total() < kPortion) return;
  const auto last = at(nest_.rank - 1);
  if (pairs && nest_.extent[last] % 2 != 0) return;  // rows end between neighbours
  if (nest_.stride[at(output)][last] == 1 && choose_tile(transposable)) {
    mode_ = Mode::tile;
    return;
  }
  const NestStrides& s = nest_.stride[at(columns)];
  bool innermost_only = s[last] != 0;
  for (std::size_t d = 0; d < last; ++d) innermost_only &= s[d] == 0;
  if (innermost_only && nest_.extent[last] >= kStep && nest_.extent[last - 1] >= 8)
    mode_ = Mode::panel;
}

}  // namespace planck
