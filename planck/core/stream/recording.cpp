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
  if (once != nullptr) cuda::destroy_graph(once);
  cuda::destroy_graph(graph);
}
Recorded::~Recorded() = default;

void Recorded::run() const {
  const Stream& s = parts_->stream;
  value_or_throw(cuda::replay(s.device().ordinal, s.native(), parts_->graph));
}

std::size_t Recorded::bytes() const {
  std::size_t all = parts_->arena.bytes();
  for (const auto& branch : parts_->branches) all += branch->bytes();
  return all;
}

Recording::Recording(const Stream& stream) {
  if (current != nullptr) raise(ErrorCode::unsupported, "recording: one is under way");
  if (stream.device().kind != DeviceKind::cuda)
    raise(ErrorCode::device, "recording: a stream of the CPU runs what it is given at once");
  parts_ = std::make_unique<Recorded::Parts>(stream);
  value_or_throw(cuda::begin_capture(stream.device().ordinal, stream.native()));
  use(parts_->arena);
  current = this;
}
void Recording::use(const Arena& arena) {
  use_.reset();
  use_.emplace(arena);
  arena_ = &arena;
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

Recording::Branches::Branches(const Stream& stream) : recording_(Recording::of(stream)) {
  if (recording_ == nullptr) return;
  // A launch that all of them come after.
  Buffer word = value_or_throw(allocate(stream, sizeof(std::uint64_t)));
  const int ordinal = stream.device().ordinal;
  value_or_throw(cuda::fill(ordinal, stream.native(), word.data(), 0, word.bytes()));
  recording_->keep(std::make_shared<const Buffer>(std::move(word)));
  first_ = value_or_throw(cuda::capture_front(ordinal, stream.native()));
}
void Recording::Branches::leave() {
  const Stream& s = recording_->parts_->stream;
  for (void* launch : value_or_throw(cuda::capture_front(s.device().ordinal, s.native())))
    last_.push_back(launch);
}
void Recording::Branches::next() {
  if (recording_ == nullptr) return;
  if (inside_) leave();
  auto& parts = *recording_->parts_;
  const Stream& s = parts.stream;
  value_or_throw(cuda::set_capture_front(s.device().ordinal, s.native(), first_));
  parts.branches.push_back(std::make_unique<Arena>(s));
  recording_->use(*parts.branches.back());
  inside_ = true;
}
void Recording::Branches::join() {
  if (recording_ == nullptr || !inside_) return;
  leave();
  auto& parts = *recording_->parts_;
  const Stream& s = parts.stream;
  value_or_throw(cuda::set_capture_front(s.device().ordinal, s.native(), last_));
  recording_->use(parts.arena);
  inside_ = false;
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
  recording_.use(*recording_.arena_);
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
