#include "planck/loops/map.cpu.h"

#include <cstdlib>

namespace planck {

void Map::choose_mode(int output, int columns, unsigned transposable) {
  if (nest_.rank < 2) return;
  const auto last = static_cast<std::size_t>(nest_.rank - 1);
  if (nest_.extent[last] < 2 || nest_.total() < kBlock) return;

  // An input that jumps along the output's innermost axis and is contiguous along another one: make
  // that the next axis.
  if (nest_.stride[static_cast<std::size_t>(output)][last] == 1) {
    for (int k = 0; k < nest_.operands && tiled_ == 0; ++k) {
      if (!((transposable >> k) & 1u)) continue;
      const NestStrides& s = nest_.stride[static_cast<std::size_t>(k)];
      if (std::abs(s[last]) <= 1) continue;
      for (std::size_t d = last; d-- > 0;) {
        if (std::abs(s[d]) != 1 || nest_.extent[d] < 4) continue;
        for (std::size_t e = d; e + 1 < last; ++e) {
          std::swap(nest_.extent[e], nest_.extent[e + 1]);
          for (int o = 0; o < nest_.operands; ++o)
            std::swap(nest_.stride[static_cast<std::size_t>(o)][e],
                      nest_.stride[static_cast<std::size_t>(o)][e + 1]);
        }
        mode_ = MapMode::tile;
        break;
      }
      if (mode_ == MapMode::tile) break;
    }
    if (mode_ == MapMode::tile) {
      for (int k = 0; k < nest_.operands; ++k) {
        const NestStrides& s = nest_.stride[static_cast<std::size_t>(k)];
        if (((transposable >> k) & 1u) && std::abs(s[last]) > 1 && std::abs(s[last - 1]) == 1)
          tiled_ |= 1u << k;
      }
      return;
    }
  }

  if (columns < 0) return;
  const NestStrides& s = nest_.stride[static_cast<std::size_t>(columns)];
  bool innermost_only = s[last] != 0;
  for (std::size_t d = 0; d < last; ++d) innermost_only &= s[d] == 0;
  if (innermost_only && nest_.extent[last] >= 64 && nest_.extent[last - 1] >= 8)
    mode_ = MapMode::panel;
}

}  // namespace planck
