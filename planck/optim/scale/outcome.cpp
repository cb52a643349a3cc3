#include "planck/optim/scale/outcome.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <tuple>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"

namespace planck::optim {

namespace {

// Pinned words and their marks, to be used again; one or two exist at a time.
struct Words {
  std::mutex mutex;
  std::vector<std::tuple<int, void*, void*>> free;  // of a device
};
Words& words() {
  static auto& all = *new Words;  // copies may be under way at exit
  return all;
}

}  // namespace

Outcome::Outcome(const StoredView& norm) : stream_(norm.stream()) {
  if (stream_.device().kind == DeviceKind::cpu) {
    norm_ = *static_cast<const double*>(norm.view.data);
    return;
  }
  const int ordinal = stream_.device().ordinal;
  {
    std::lock_guard lock(words().mutex);
    auto& free = words().free;
    for (auto at = free.begin(); at != free.end() && word_ == nullptr; ++at)
      if (std::get<0>(*at) == ordinal) {
        std::tie(std::ignore, word_, event_) = *at;
        free.erase(at);
        break;
      }
  }
  if (word_ == nullptr) {
    word_ = value_or_throw(cuda::allocate_pinned(sizeof(double)));
    event_ = value_or_throw(cuda::create_event(ordinal));
  }
  value_or_throw(
      cuda::copy_to_host(ordinal, stream_.native(), word_, norm.view.data, sizeof(double)));
  value_or_throw(cuda::record(ordinal, stream_.native(), event_));
}
Outcome::~Outcome() {
  if (word_ == nullptr) return;
  if (!norm_) (void)cuda::wait(event_);  // the copy writes there
  std::lock_guard lock(words().mutex);
  words().free.emplace_back(stream_.device().ordinal, word_, event_);
}

double Outcome::norm() const {
  if (!norm_) {
    value_or_throw(cuda::wait(event_));
    std::memcpy(&norm_.emplace(), word_, sizeof(double));
  }
  return *norm_;
}

bool Outcome::counts() const { return std::isfinite(norm()); }

}  // namespace planck::optim
