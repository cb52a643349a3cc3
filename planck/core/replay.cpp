#include "planck/core/replay.h"

#include <atomic>

#include "planck/core/refuse.h"
#include "planck/core/rng.h"

namespace planck {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> id{0};
  return id.fetch_add(1, std::memory_order_relaxed) + 1;
}
[[noreturn]] void refuse_run(std::string_view rule, std::initializer_list<MessagePart> parts) {
  refuse(ErrorCode::invalid_problem,
         "checkpoint: the segment's second run " + std::string(rule) +
             "; a segment must do the same twice",
         parts);
}

}  // namespace

Replay::Run::Run(Replay& log) : into_(&log), from_(nullptr), outer_(innermost_), id_(next_id()) {
  innermost_ = this;
}
Replay::Run::Run(const Replay& log)
    : into_(nullptr), from_(&log), outer_(innermost_), id_(next_id()) {
  innermost_ = this;
}

void Replay::Run::finish() const {
  if (from_ == nullptr) return;
  if (draws_ != from_->draws_.size())
    refuse_run(
        "draws {} times from generators, the first drew {} times",
        {static_cast<std::int64_t>(draws_), static_cast<std::int64_t>(from_->draws_.size())});
  if (values_ != from_->values_.size())
    refuse_run(
        "asks for {} values of module state, the first for {}",
        {static_cast<std::int64_t>(values_), static_cast<std::int64_t>(from_->values_.size())});
}

std::uint64_t Replay::Run::take(Rng& rng, std::int64_t count) {
  if (from_ == nullptr) {
    into_->draws_.push_back(
        {rng.seed, 0, count});  // first, so that nothing is drawn where it fails
    try {
      const std::uint64_t first = outer_ != nullptr ? outer_->take(rng, count) : rng.advance(count);
      into_->draws_.back().first = first;
      return first;
    } catch (...) {
      into_->draws_.pop_back();
      throw;
    }
  }
  if (draws_ == from_->draws_.size())
    refuse_run("draws more often from generators than the first, which drew {} times",
               {static_cast<std::int64_t>(draws_)});
  const Draw& draw = from_->draws_[draws_++];
  if (draw.count != count)
    refuse_run("draws {} numbers where the first drew {}", {count, draw.count});
  if (draw.seed != rng.seed)
    refuse_run("draws from a generator of seed {} where the first had {}",
               {static_cast<std::int64_t>(rng.seed), static_cast<std::int64_t>(draw.seed)});
  return draw.first;
}

std::shared_ptr<const void> Replay::Run::recall(const void* type) {
  if (from_ == nullptr) {
    if (outer_ == nullptr) return nullptr;
    auto value = outer_->recall(type);
    if (value) into_->values_.push_back({value, type});
    return value;
  }
  if (values_ == from_->values_.size() || from_->values_[values_].type != type)
    refuse_run("asks for module state that the first did not ask for", {});
  return from_->values_[values_++].value;
}

void Replay::Run::keep(const std::shared_ptr<const void>& value, const void* type) {
  if (into_ == nullptr) return;
  into_->values_.push_back({value, type});
  if (outer_ != nullptr) outer_->keep(value, type);
}

}  // namespace planck
