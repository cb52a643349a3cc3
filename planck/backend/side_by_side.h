// Work whose tensors are known, as a recording takes it that runs work side by side
// (core/stream/recording.h). Elsewhere it is just run.
#pragma once

#include <span>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/core/stream/recording.h"

namespace planck::backend_detail {

inline Recording* side_by_side(const Stream& stream) {
  return stream.device().kind == DeviceKind::cuda ? Recording::side_by_side(stream) : nullptr;
}

// run() queues work that reads these tensors and writes those, none of which was there before.
template <class Run>
void run_beside(Recording& recording, std::span<const View> reads,
                std::span<StoredView* const> writes, const Shared<Storage>& workspace,
                const Run& run) {
  std::vector<const void*> read;
  for (const View& v : reads)
    if (numel(v.shape) > 0) read.push_back(v.data);
  Recording::Work work(recording, read);
  run();
  const auto wrote = [&](const Shared<Storage>& storage) {
    if (storage) work.wrote(storage->data(), storage->bytes());
  };
  for (const StoredView* t : writes) wrote(t->storage);
  wrote(workspace);
  work.finish();
}

}  // namespace planck::backend_detail
