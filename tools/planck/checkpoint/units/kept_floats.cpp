#include "tools/planck/checkpoint/units/kept_floats.h"

#include <sys/mman.h>

#include <cstdlib>

namespace planck::cli {

void KeptFloats::Free::operator()(std::byte* memory) const { std::free(memory); }

std::byte* KeptFloats::take(std::size_t bytes) {
  constexpr std::size_t kLine = 64, kHugePage = std::size_t{1} << 21;
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
  if (whole > kBytes - used_) return nullptr;
  if (memory_ == nullptr) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kBytes)));
    if (memory_ == nullptr) return nullptr;
    (void)madvise(memory_.get(), kBytes, MADV_HUGEPAGE);  // a fault for 2 MB, not for 4 KB
  }
  std::byte* part = memory_.get() + used_;
  used_ += whole;
  return part;
}

}  // namespace planck::cli
