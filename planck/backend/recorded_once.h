// What a recorded step would make anew in every run though it is the same each time: tensors of up
// to 1 MiB that ops make of numbers alone (fill, arange), and what ops make of such alone. They are
// made once, before the first run (Recording::Once), and live as long as the work; nobody writes
// over them.
#pragma once

#include <span>
#include <utility>

#include "planck/backend/primitive.h"
#include "planck/core/stream/recording.h"

namespace planck::backend_detail {

inline constexpr std::size_t kLargestConstant = std::size_t{1} << 20;  // bytes: they stay

inline bool is_constant(const Recording& recording, const StoredView& t) {
  return recording.is_constant(t.storage.get()) &&
         bytes_for(t.dtype(), numel(t.shape())) <= kLargestConstant;
}
// The recording, where all of these are the same in every run of it.
template <class... T>
Recording* knows_all(const Stream& stream, const T&... inputs) {
  if (stream.device().kind != DeviceKind::cuda) return nullptr;
  Recording* recording = Recording::of(stream);
  return recording != nullptr && (is_constant(*recording, inputs) && ...) ? recording : nullptr;
}

template <class Run>
void run_once(Recording& recording, std::span<StoredView* const> outputs, const Run& run) {
  {
    const Recording::Once once(recording);
    run();
  }
  for (const StoredView* out : outputs)
    if (out->storage)
      recording.add_constant(out->storage.get(),
                             std::make_shared<const Shared<Storage>>(out->storage));
}

// An op without inputs; equal ones share what is made.
template <class Problem, class Run>
void make_once(const Stream& stream, const Problem& problem, StoredView& out, const Run& run) {
  Recording* recording = stream.device().kind == DeviceKind::cuda ? Recording::of(stream) : nullptr;
  if (recording == nullptr || bytes_for(problem.to, numel(problem.shape)) > kLargestConstant)
    return run();
  using Made = std::pair<Problem, StoredView>;
  static constexpr char kType = 0;
  for (const auto& made : recording->made)
    if (made.type == &kType && static_cast<const Made*>(made.what.get())->first == problem) {
      out = static_cast<const Made*>(made.what.get())->second;
      return;
    }
  run_once(*recording, std::array{&out}, run);
  recording->made.push_back({&kType, std::make_shared<const Made>(problem, out)});
}

}  // namespace planck::backend_detail
