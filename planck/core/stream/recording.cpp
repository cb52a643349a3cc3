#include "planck/core/stream/recording.h"

#include <algorithm>
#include <iterator>
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
  if (once != nullptr) cuda::destroy_graph(once);
  cuda::destroy_graph(graph);
}
Recorded::~Recorded() = default;

void Recorded::run() const {
  const Stream& s = parts_->stream;
  value_or_throw(cuda::replay(s.device().ordinal, s.native(), parts_->graph));
}

std::size_t Recorded::bytes() const { return parts_->arena.bytes(); }

void Recording::add_constant(const void* memory, std::shared_ptr<const void> what) {
  constants_.insert(std::ranges::upper_bound(constants_, memory), memory);
  keep(std::move(what));
}
bool Recording::is_constant(const void* memory) const {
  return std::ranges::binary_search(constants_, memory);
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
  const int ordinal = s.device().ordinal;
  if (once_.empty()) {
    parts_->graph = value_or_throw(cuda::end_capture(ordinal, s.native()));
  } else {
    const auto both = value_or_throw(cuda::end_capture(ordinal, s.native(), once_));
    parts_->once = both.once;
    parts_->graph = both.rest;
    value_or_throw(cuda::replay(ordinal, s.native(), both.once));
  }
  return Recorded(std::move(parts_));
}

Result<Recording::Draw> Recording::draw(std::uint64_t seed, std::uint64_t offset) {
  if (!use_)  // within Once
    return fail(ErrorCode::unsupported, "recording: numbers are drawn beside constants alone");
  const Generator* of = nullptr;
  std::size_t alike = 0;
  for (const Generator& g : generators_) {
    if (g.seed != seed || offset < g.first) continue;
    if (of != nullptr && of->first != g.first)
      return fail(ErrorCode::unsupported,
                  "recording: two generators have the seed " + std::to_string(seed));
    of = &g;
    ++alike;
  }
  if (of == nullptr)
    return fail(ErrorCode::unsupported,
                "recording: numbers are drawn from a generator that is no part of the model");
  drawn_[{seed, offset}] = alike;
  return Draw{of->now, offset - of->first};
}
std::size_t Recording::draws() const {
  std::size_t all = 0;
  for (const auto& [place, alike] : drawn_) all += alike;
  return all;
}

namespace {
std::vector<void*> front_of(const Stream& s) {
  auto front = value_or_throw(cuda::capture_front(s.device().ordinal, s.native()));
  std::ranges::sort(front);
  return front;
}
void set_front(const Stream& s, const std::vector<void*>& front) {
  value_or_throw(cuda::set_capture_front(s.device().ordinal, s.native(), front));
}
}  // namespace

Recording::SideBySide::SideBySide(const Stream& stream) : recording_(Recording::of(stream)) {
  if (recording_ == nullptr) return;
  auto front = front_of(stream);
  recording_->flow_ = std::make_unique<Flow>(Flow{front, front, {}, {}});
}
void Recording::SideBySide::join() {
  if (recording_ != nullptr) recording_->flow_.reset();
  recording_ = nullptr;
}
Recording* Recording::side_by_side(const Stream& stream) {
  Recording* recording = Recording::of(stream);
  return recording != nullptr && recording->flow_ && recording->use_ ? recording : nullptr;
}

Recording::Work::Work(Recording& recording, std::span<const void* const> reads)
    : recording_(recording) {
  const Stream& s = recording_.parts_->stream;
  Flow& flow = *recording_.flow_;
  if (auto front = front_of(s); front != flow.last) {  // something waits for everything
    flow.first = flow.last = std::move(front);
    flow.written.clear();
  }
  for (const void* read : reads) {
    const auto* at = static_cast<const std::byte*>(read);
    auto found = flow.written.upper_bound(at);
    if (found == flow.written.begin() || (--found)->second.end <= at) continue;
    const auto& by = found->second.by;
    waits_for_.insert(waits_for_.end(), by.begin(), by.end());
  }
  if (waits_for_.empty()) waits_for_ = flow.first;
  std::ranges::sort(waits_for_);
  waits_for_.erase(std::ranges::unique(waits_for_).begin(), waits_for_.end());
  set_front(s, waits_for_);
}
void Recording::Work::wrote(const void* begin, std::size_t bytes) {
  wrote_.emplace_back(static_cast<const std::byte*>(begin), bytes);
}
void Recording::Work::finish() {
  const Stream& s = recording_.parts_->stream;
  Flow& flow = *recording_.flow_;
  const auto launched = front_of(s);
  for (const auto& [begin, bytes] : wrote_)
    flow.written.insert_or_assign(begin, Flow::Written{begin + bytes, launched});
  if (launched != waits_for_) {
    std::vector<void*> last;
    std::ranges::set_difference(flow.last, waits_for_, std::back_inserter(last));
    last.insert(last.end(), launched.begin(), launched.end());
    std::ranges::sort(last);
    flow.last = std::move(last);
  }
  set_front(s, flow.last);
}

Recording::Once::Once(Recording& recording) : recording_(recording) {
  const Stream& s = recording_.parts_->stream;
  front_ = value_or_throw(cuda::capture_front(s.device().ordinal, s.native()));
  value_or_throw(cuda::set_capture_front(s.device().ordinal, s.native(), recording_.once_));
  recording_.use_.reset();
}
Recording::Once::~Once() {
  const Stream& s = recording_.parts_->stream;
  // Where this fails, so does the end of the recording.
  if (auto last = cuda::capture_front(s.device().ordinal, s.native()))
    recording_.once_ = std::move(*last);
  (void)cuda::set_capture_front(s.device().ordinal, s.native(), front_);
  recording_.use_.emplace(recording_.parts_->arena);
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
