#include "planck/ops/conv/host/walk.h"

#include <algorithm>
#include <cstdlib>

namespace planck::conv_detail {

std::optional<WindowWalk> walk_of(const Windows& w, int block, std::int64_t kernel_wide) {
  if (w.taps() == 0 || w.channels == 0 || w.places() == 0 || w.places() + 512 > INT32_MAX)
    return std::nullopt;
  WindowWalk walk{};
  walk.wide = static_cast<int>(w.across.places), walk.high = static_cast<int>(w.down.places);
  const WindowAxis* const axes[2] = {&w.down, &w.across};
  for (int d = 0; d < 2; ++d) {
    const WindowAxis& a = *axes[d];
    const std::int64_t reach = (a.taps - 1) * a.per_tap,
                       low = a.at + std::min<std::int64_t>(0, reach);
    const std::int64_t last = low + (a.places - 1) * a.per_place + 1 - a.extent;
    if (a.per_place > 8 || low < -128 || low > 127 || last < -128 || last > 127 ||
        std::abs(reach) > 255 || a.extent > INT32_MAX)
      return std::nullopt;
    walk.at[d] = static_cast<int>(low), walk.step[d] = static_cast<int>(a.per_place);
    walk.move[d] = static_cast<int>(reach < 0 ? -reach : 0);
    walk.move_step[d] = static_cast<int>(a.per_tap);
    walk.last[d] = static_cast<int>(last);
  }
  walk.taps_across = static_cast<int>(w.across.taps), walk.taps = static_cast<int>(w.taps());
  walk.tap_at = static_cast<int>(w.down.first_tap * kernel_wide + w.across.first_tap);
  walk.tap_steps[0] = static_cast<int>(w.down.tap_step * kernel_wide);
  walk.tap_steps[1] = static_cast<int>(w.across.tap_step);
  walk.channels = static_cast<int>(w.channels);
  walk.block = block;
  walk.blocks = static_cast<int>((w.channels + block - 1) / block);
  return walk;
}

}  // namespace planck::conv_detail
