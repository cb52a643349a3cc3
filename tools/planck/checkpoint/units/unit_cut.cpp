#include "tools/planck/checkpoint/units/unit_cut.h"

#include <algorithm>

namespace planck::cli {

namespace {

constexpr std::int64_t kAlign = 64;  // channels or elements that stay together

// As many as fit into `limit`, in whole multiples of kAlign where there are that many.
std::int64_t step_of(std::int64_t each, std::int64_t limit) {
  const std::int64_t fit = std::max<std::int64_t>(limit / std::max<std::int64_t>(each, 1), 1);
  return fit > kAlign ? fit / kAlign * kAlign : each % 2 != 0 && fit > 1 ? fit / 2 * 2 : fit;
}

}  // namespace

GroupLayout group_layout(const TensorScheme& scheme) {
  const Shape& shape = scheme.original_shape;
  const std::int64_t count = numel(shape);
  if (scheme.scheme == "per_tensor" || shape.rank() == 0) return {1, 1, count};
  if (scheme.scheme == "per_channel") {
    GroupLayout layout{1, shape[scheme.axis], 1};
    for (int d = 0; d < scheme.axis; ++d) layout.outer *= shape[d];
    for (int d = scheme.axis + 1; d < shape.rank(); ++d) layout.inner *= shape[d];
    return layout;
  }
  const std::int64_t inner = scheme.scheme == "per_group" ? scheme.group : shape[shape.rank() - 1];
  return {1, inner > 0 ? count / inner : 0, inner};
}

std::vector<Unit> cut(const GroupLayout& l, std::int64_t limit) {
  std::vector<Unit> units;
  const std::int64_t plane = l.channels * l.inner;
  if (l.elements() == 0) return units;
  if (l.outer > 1 && plane <= limit) {  // several planes
    const std::int64_t step = step_of(plane, limit);
    for (std::int64_t o = 0; o < l.outer; o += step)
      units.push_back({std::min(step, l.outer - o), l.channels, l.inner, 0, o * plane});
    return units;
  }
  for (std::int64_t o = 0; o < l.outer; ++o) {
    if (l.inner <= limit) {  // some channels of a plane
      const std::int64_t step = step_of(l.inner, limit);
      for (std::int64_t c = 0; c < l.channels; c += step)
        units.push_back({1, std::min(step, l.channels - c), l.inner, c, o * plane + c * l.inner});
      continue;
    }
    const std::int64_t step = step_of(1, limit);  // parts of a channel
    for (std::int64_t c = 0; c < l.channels; ++c)
      for (std::int64_t i = 0; i < l.inner; i += step)
        units.push_back({1, 1, std::min(step, l.inner - i), c, o * plane + c * l.inner + i});
  }
  return units;
}

std::vector<std::vector<Unit>> by_channels(std::vector<Unit> units, std::int64_t most) {
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.first_channel < b.first_channel; });
  std::vector<std::vector<Unit>> parts;
  for (const Unit& u : units) {
    if (parts.empty() || u.first_channel + u.channels - parts.back()[0].first_channel > most)
      parts.emplace_back();
    parts.back().push_back(u);
  }
  return parts;
}

bool holds_whole_groups(const GroupLayout& layout, const std::vector<Unit>& units) {
  return units.size() <= 1 ||
         (layout.outer == 1 && std::all_of(units.begin(), units.end(),
                                           [&](const Unit& u) { return u.inner == layout.inner; }));
}

std::vector<Unit> cut_plain(std::int64_t elements, std::int64_t limit) {
  return cut({1, 1, elements}, std::max<std::int64_t>(limit, kAlign));
}

}  // namespace planck::cli
