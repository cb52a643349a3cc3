#include "planck/backend/side_by_side.h"

#include <array>
#include <vector>

#include "planck/core/stream/recording.h"

namespace planck::backend_detail {

namespace {

constexpr std::size_t kLargestConstant = std::size_t{1} << 20;  // bytes: they stay

Recording* recording_of(const Stream& stream) {
  return stream.device().kind == DeviceKind::cuda ? Recording::of(stream) : nullptr;
}

// What was made once, to be found again.
struct Made {
  std::shared_ptr<const void> problem;
  StoredView what;
};

}  // namespace

Recording* side_by_side(const Stream& stream) {
  return stream.device().kind == DeviceKind::cuda ? Recording::side_by_side(stream) : nullptr;
}

void run_beside(Recording& recording, std::span<const View> reads,
                std::span<StoredView* const> writes, const Shared<Storage>& workspace,
                Queues queues) {
  std::vector<const void*> read;
  for (const View& v : reads)
    if (numel(v.shape) > 0) read.push_back(v.data);
  Recording::Work work(recording, read);
  queues();
  const auto wrote = [&](const Shared<Storage>& storage) {
    if (storage) work.wrote(storage->data(), storage->bytes());
  };
  for (const StoredView* t : writes) wrote(t->storage);
  wrote(workspace);
  work.finish();
}

Recording* knows_all(const Stream& stream, std::span<const StoredView* const> inputs) {
  Recording* const recording = recording_of(stream);
  if (recording == nullptr) return nullptr;
  for (const StoredView* t : inputs)
    if (!recording->is_constant(t->storage.get()) ||
        bytes_for(t->dtype(), numel(t->shape())) > kLargestConstant)
      return nullptr;
  return recording;
}

void run_once(Recording& recording, std::span<StoredView* const> outputs, Queues queues) {
  {
    const Recording::Once once(recording);
    queues();
  }
  for (const StoredView* out : outputs)
    if (out->storage)
      recording.add_constant(out->storage.get(),
                             std::make_shared<const Shared<Storage>>(out->storage));
}

Recording* makes_once(const Stream& stream, std::size_t bytes) {
  return bytes > kLargestConstant ? nullptr : recording_of(stream);
}

void make_once(Recording& recording, const Maker& maker, StoredView& out, Queues queues) {
  for (const Recording::Made& made : recording.made) {
    const auto* known = static_cast<const Made*>(made.what.get());
    if (made.type == maker.type && maker.equal(known->problem.get(), maker.problem.get())) {
      out = known->what;
      return;
    }
  }
  run_once(recording, std::array{&out}, queues);
  recording.made.push_back({maker.type, std::make_shared<const Made>(Made{maker.problem, out})});
}

}  // namespace planck::backend_detail
