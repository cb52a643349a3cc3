// Work on a CUDA stream that is written down once and run again: a CUDA graph, with the memory that
// it uses.
//
//   Recording recording(stream);
//   …                                      // what this thread queues there is recorded, not run
//   Recorded work = recording.finish();    // and now
//   work.run();                            // as often as one likes
//
// The work reads and writes the same memory every time. What it allocates comes from an arena of
// its own, which lives as long as the Recorded. The host cannot look while nothing runs: reading a
// tensor, making one of values of the host and waiting are refused, by check_not_recorded or by
// CUDA, and then nothing is recorded. Errors are thrown.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "planck/core/allocator.h"

namespace planck {

class Recorded {
 public:
  Recorded(Recorded&&) noexcept = default;
  Recorded& operator=(Recorded&&) noexcept = default;
  // Waits for runs that are under way.
  ~Recorded();

  // Queues all of it.
  void run() const;
  std::size_t bytes() const { return parts_->arena.bytes(); }

 private:
  friend class Recording;
  struct Parts {
    explicit Parts(const Stream& s) : stream(s), arena(s) {}
    ~Parts();
    Stream stream;
    Arena arena;
    std::vector<std::shared_ptr<const void>> kept;  // as long as the work may run
    void* graph = nullptr;
  };
  explicit Recorded(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
  std::unique_ptr<Parts> parts_;
};

class Recording {
 public:
  explicit Recording(const Stream& stream);
  Recording(const Recording&) = delete;
  ~Recording();  // forgets all of it, unless it was finished
  Recorded finish();

  // What of this thread records the stream; null where nothing does.
  static Recording* of(const Stream& stream);
  void keep(std::shared_ptr<const void> what) { parts_->kept.push_back(std::move(what)); }

 private:
  void end();

  std::unique_ptr<Recorded::Parts> parts_;
  std::optional<Arena::Use> use_;
};

// Refuses what the host does with a stream that is recorded: "the host reads …".
void check_not_recorded(const Stream& stream, std::string_view what);

}  // namespace planck
