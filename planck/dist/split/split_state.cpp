#include "planck/dist/split/split_state.h"

#include "planck/core/refuse.h"

namespace planck::dist {

namespace {

// An entry seen as [outer, extent, inner bytes], whose middle axis is the one that is cut.
struct Cut {
  std::size_t outer = 1, inner = 1;

  Cut(const nn::StateEntry& e, int axis) {
    std::int64_t after = 1;
    for (int d = 0; d < e.shape.rank(); ++d)
      if (d < axis)
        outer *= static_cast<std::size_t>(e.shape[d]);
      else if (d > axis)
        after *= e.shape[d];
    inner = bytes_for(e.dtype, after);
  }
};

void check_extent(const std::string& name, const nn::StateEntry& e, int axis, std::int64_t extent) {
  if (e.shape.rank() <= axis || e.shape[axis] != extent)
    refuse("{}: shape {}, axis {} must have {}", {name, e.shape, axis, extent});
}

}  // namespace

nn::StateDict joined_parts(const SplitParameters& parameters, nn::StateDict state,
                           std::string_view prefix) {
  for (const SplitParameter& p : parameters) {
    const auto at = state.find(std::string(prefix) + p.path);
    if (at == state.end()) continue;
    nn::StateEntry& e = at->second;
    check_extent(at->first, e, p.axis, p.layer->part.count());
    const Cut cut(e, p.axis);
    const auto all = gather_all(*p.layer->workers, e.bytes);
    nn::StateEntry whole{e.dtype, e.shape, {}};
    whole.shape[p.axis] = p.layer->extent;
    for (std::size_t o = 0; o < cut.outer; ++o)
      for (const auto& part : all) {
        const auto each = static_cast<std::ptrdiff_t>(part.size() / cut.outer);
        const auto from = part.begin() + static_cast<std::ptrdiff_t>(o) * each;
        whole.bytes.insert(whole.bytes.end(), from, from + each);
      }
    if (whole.bytes.size() != bytes_for(whole.dtype, numel(whole.shape)))
      refuse("{}: the parts of all workers have {} bytes, the whole {}",
             {at->first, static_cast<std::int64_t>(whole.bytes.size()),
              static_cast<std::int64_t>(bytes_for(whole.dtype, numel(whole.shape)))});
    e = std::move(whole);
  }
  return state;
}

nn::StateDict cut_parts(const SplitParameters& parameters, nn::StateDict whole,
                        std::string_view prefix) {
  for (const SplitParameter& p : parameters) {
    const auto at = whole.find(std::string(prefix) + p.path);
    if (at == whole.end()) continue;
    nn::StateEntry& e = at->second;
    check_extent(at->first, e, p.axis, p.layer->extent);
    const Cut cut(e, p.axis);
    const auto [first, end] = p.layer->part;
    nn::StateEntry part{e.dtype, e.shape, {}};
    part.shape[p.axis] = end - first;
    for (std::size_t o = 0; o < cut.outer; ++o) {
      const auto row =
          e.bytes.begin() +
          static_cast<std::ptrdiff_t>(o * static_cast<std::size_t>(p.layer->extent) * cut.inner);
      const auto inner = static_cast<std::ptrdiff_t>(cut.inner);
      part.bytes.insert(part.bytes.end(), row + first * inner, row + end * inner);
    }
    e = std::move(part);
  }
  return whole;
}

}  // namespace planck::dist
