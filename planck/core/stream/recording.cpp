#include "planck/core/stream/recording.h"

#include <string>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"

namespace planck {

namespace {
constinit thread_local Recording* current = nullptr;
}  // namespace

Recorded::Parts::~Parts() {
  if (graph == nullptr) return;
  (void)stream.synchronize();
  cuda::destroy_graph(graph);
}
Recorded::~Recorded() = default;

void Recorded::run() const {
  const Stream& s = parts_->stream;
  value_or_throw(cuda::replay(s.device().ordinal, s.native(), parts_->graph));
}

Recording::Recording(const Stream& stream) {
  if (current != nullptr) raise(ErrorCode::unsupported, "recording: one is under way");
  if (stream.device().kind != DeviceKind::cuda)
    raise(ErrorCode::device, "recording: a stream of the CPU runs what it is given at once");
  parts_ = std::make_unique<Recorded::Parts>(stream);
  value_or_throw(cuda::begin_capture(stream.device().ordinal, stream.native()));
  use_.emplace(parts_->arena);
  current = this;
}
void Recording::end() {
  use_.reset();
  current = nullptr;
}
Recording::~Recording() {
  if (!use_) return;
  end();
  const Stream& s = parts_->stream;
  if (auto graph = cuda::end_capture(s.device().ordinal, s.native())) parts_->graph = *graph;
}
Recorded Recording::finish() {
  end();
  const Stream& s = parts_->stream;
  parts_->graph = value_or_throw(cuda::end_capture(s.device().ordinal, s.native()));
  return Recorded(std::move(parts_));
}

Recording* Recording::of(const Stream& stream) {
  if (current == nullptr) return nullptr;
  const Stream& own = current->parts_->stream;
  return own.device() == stream.device() && own.native() == stream.native() ? current : nullptr;
}

void check_not_recorded(const Stream& stream, std::string_view what) {
  if (Recording::of(stream) != nullptr)
    raise(ErrorCode::unsupported, "recording: " + std::string(what));
}

}  // namespace planck
