// Work as a recording takes it (core/stream/recording.h): beside other work, where its tensors are
// known, and once, where all runs would make the same. Elsewhere it is just run.
#pragma once

#include <memory>
#include <span>

#include "planck/backend/primitive.h"

namespace planck {

class Recording;

namespace backend_detail {

// What queues the work; called before those return that take it.
class Queues {
 public:
  template <class F>
  Queues(const F& f) : f_(&f), call_([](const void* g) { (*static_cast<const F*>(g))(); }) {}
  void operator()() const { call_(f_); }

 private:
  const void* f_;
  void (*call_)(const void*);
};

// The recording of a stream whose work is recorded side by side; else null.
Recording* side_by_side(const Stream& stream);
// Work that reads these tensors and writes those, none of which was there before.
void run_beside(Recording& recording, std::span<const View> reads,
                std::span<StoredView* const> writes, const Shared<Storage>& workspace,
                Queues queues);

// What a recorded step would make anew in every run though it is the same each time: tensors of up
// to 1 MiB that ops make of numbers alone (fill, arange), and what ops make of such alone. They are
// made once, before the first run (Recording::Once), and live as long as the work; nobody writes
// over them.

// The recording, where all of these are the same in every run of it; else null.
Recording* knows_all(const Stream& stream, std::span<const StoredView* const> inputs);
void run_once(Recording& recording, std::span<StoredView* const> outputs, Queues queues);

// Of an op without inputs; equal ones share what is made. The recording that makes it, or null.
Recording* makes_once(const Stream& stream, std::size_t bytes);
struct Maker {
  const void* type;                     // one address for each type of problem
  std::shared_ptr<const void> problem;  // whose equals are told by
  bool (*equal)(const void* a, const void* b);
};
void make_once(Recording& recording, const Maker& maker, StoredView& out, Queues queues);

template <class Problem>
void make_once(const Stream& stream, const Problem& problem, StoredView& out, Queues queues) {
  static constexpr char kType = 0;
  Recording* const recording = makes_once(stream, bytes_for(problem.to, numel(problem.shape)));
  if (recording == nullptr) return queues();
  const auto equal = [](const void* a, const void* b) {
    return *static_cast<const Problem*>(a) == *static_cast<const Problem*>(b);
  };
  make_once(*recording, {&kType, std::make_shared<const Problem>(problem), equal}, out, queues);
}

}  // namespace backend_detail
}  // namespace planck
