#include "planck/dist/data_parallel.h"

#include <cstring>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/nn/nn.h"

namespace planck::dist {

// SplitMix64, which spreads every bit of the three over the result.
std::uint64_t grain_seed(std::uint64_t seed, std::uint64_t offset, std::int64_t grain) {
  const auto spread = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return spread(spread(spread(seed) ^ offset) ^ static_cast<std::uint64_t>(grain));
}

namespace detail {

namespace {
bool on_host(const Stream& s) { return s.device().kind == DeviceKind::cpu; }
}  // namespace

void put(const Stream& place, const Stream& model, void* to, const Slot& slot,
         const StoredView* from) {
  const std::size_t bytes = bytes_for(slot.dtype, numel(slot.shape));
  if (on_host(place)) {
    if (from != nullptr)
      backend_detail::to_host(*from, to);
    else
      std::memset(to, 0, bytes);
    return;
  }
  const int ordinal = place.device().ordinal;
  if (from == nullptr) return value_or_throw(cuda::fill(ordinal, model.native(), to, 0, bytes));
  const StoredView dense = backend_detail::contiguous(*from);
  value_or_throw(cuda::copy_on_device(ordinal, model.native(), to, dense.view.data, bytes));
}

StoredView taken(const Stream& place, const Stream& model, const Slot& slot, const void* sum) {
  if (on_host(place)) return backend_detail::from_host(model, slot.dtype, slot.shape, sum);
  StoredView copy = StoredView::empty(model, slot.dtype, slot.shape);
  value_or_throw(cuda::copy_on_device(place.device().ordinal, model.native(), copy.view.data, sum,
                                      bytes_for(slot.dtype, numel(slot.shape))));
  return copy;
}

TakenRows taken_rows(const float* sums, std::int64_t rows, std::int64_t width, bool all) {
  TakenRows found;
  for (std::int64_t r = 0; r < rows; ++r, sums += width + 1) {
    if (!all && !(sums[width] > 0)) continue;
    found.index.push_back(r);
    found.values.insert(found.values.end(), sums, sums + width);
  }
  return found;
}

}  // namespace detail

template class DataParallel<Autodiff<Cpu>>;
PLANCK_IF_CUDA(template class DataParallel<Autodiff<Cuda>>;)
template class DataParallel<Autodiff<Cpu, BalancedCheckpointing>>;
PLANCK_IF_CUDA(template class DataParallel<Autodiff<Cuda, BalancedCheckpointing>>;)

}  // namespace planck::dist
