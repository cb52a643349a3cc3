// What a segment that runs twice (autodiff/checkpoint.h) saw the first time: random draws, and
// state that a module changes, or reads while others may change it.
//
//   const auto range = once([&] { return running = moved(running, batch); });
//
// once(f) is f(), but for a segment's second run: that does not call f and gets what f gave the
// first time. Draws from an Rng are replayed without being asked. A second run that asks for
// something else than the first is refused. All of it belongs to the thread.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace planck {

struct Rng;

// What one segment saw.
class Replay {
 public:
  class Run;

 private:
  struct Draw {
    std::uint64_t seed, first;
    std::int64_t count;
  };
  struct Value {
    std::shared_ptr<const void> value;
    const void* type;
  };
  std::vector<Draw> draws_;
  std::vector<Value> values_;
};

// One run of a segment, as long as it lives. Segments within segments have runs within runs.
class Replay::Run {
 public:
  explicit Run(Replay& log);        // the first: writes
  explicit Run(const Replay& log);  // any other: reads
  Run(const Run&) = delete;
  ~Run() { innermost_ = outer_; }
  // Refuses a second run that asked for less than the first.
  void finish() const;

  static Run* innermost() { return innermost_; }
  // No two runs of this process have the same.
  std::uint64_t id() const { return id_; }
  // Whether this is a second run, or part of one.
  bool again() const { return from_ != nullptr || (outer_ != nullptr && outer_->again()); }

  std::uint64_t take(Rng& rng, std::int64_t count);
  // What once() gave the first time; null where this is the first.
  std::shared_ptr<const void> recall(const void* type);
  void keep(const std::shared_ptr<const void>& value, const void* type);

 private:
  static inline constinit thread_local Run* innermost_ = nullptr;
  Replay* const into_;
  const Replay* const from_;
  Run* const outer_;
  const std::uint64_t id_;
  std::size_t draws_ = 0, values_ = 0;  // read so far
};

namespace replay_detail {
template <class T>
inline constexpr char kType = 0;  // its address stands for T
}  // namespace replay_detail

template <class F>
auto once(F&& f) {
  using T = std::invoke_result_t<F&>;
  Replay::Run* run = Replay::Run::innermost();
  if constexpr (std::is_void_v<T>) {
    if (run == nullptr || !run->again()) f();
  } else {
    using Value = std::remove_cvref_t<T>;
    const void* type = &replay_detail::kType<Value>;
    if (run == nullptr) return Value(f());
    if (const auto kept = run->recall(type)) return Value(*static_cast<const Value*>(kept.get()));
    auto fresh = std::make_shared<Value>(f());
    run->keep(fresh, type);
    return Value(*fresh);
  }
}

}  // namespace planck
