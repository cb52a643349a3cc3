// Work on a CUDA stream that is written down once and run again: a CUDA graph, with the memory that
// it uses.
//
//   Recording recording(stream);
//   …                                      // what this thread queues there is recorded, not run
//   Recorded work = recording.finish();    // and now
//   work.run();                            // as often as one likes
//
// The work reads and writes the same memory every time. What it allocates comes from an arena of
// its own, which lives as long as the Recorded. What is the same in every run (Once) is done once,
// before the first. What is drawn from generators that draw_from() was told of is drawn, in every
// run, from where they are by then. The host cannot look while nothing runs: reading a tensor,
// making one of values of the host and waiting are refused, by check_not_recorded or by CUDA, and
// then nothing is recorded. Errors are thrown.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
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
  std::size_t bytes() const;

 private:
  friend class Recording;
  struct Parts {
    explicit Parts(const Stream& s) : stream(s), arena(s) {}
    ~Parts();
    Stream stream;
    Arena arena;
    std::vector<std::shared_ptr<const void>> kept;  // as long as the work may run
    void* once = nullptr;                           // a graph of its own
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

  class SideBySide;
  class Work;
  class Once;

  // The recording of a stream whose work is recorded side by side, else null.
  static Recording* side_by_side(const Stream& stream);
  // Of one that side_by_side() gave: what owns memory, until its join().
  void keep_until_join(std::shared_ptr<const void> owner) {
    flow_->kept.push_back(std::move(owner));
  }

  // Memory that holds the same in every run: what Once wrote. `what` keeps it.
  void add_constant(const void* memory, std::shared_ptr<const void> what);
  bool is_constant(const void* memory) const;
  // What was made once, to be found again: of any types, each with an address of its own.
  struct Made {
    const void* type;
    std::shared_ptr<const void> what;
  };
  std::vector<Made> made;

  // A generator (core/rng.h) whose draws are recorded. `now`: two words on the device, its seed and
  // its offset when a run begins; `first`: its offset when the recording began.
  struct Generator {
    std::uint64_t seed, first;
    const std::uint64_t* now;
  };
  void draw_from(std::vector<Generator> generators) { generators_ = std::move(generators); }
  // For kernels that draw: of which generator, and how far from `now`.
  struct Draw {
    const std::uint64_t* now;
    std::uint64_t ahead;
  };
  Result<Draw> draw(std::uint64_t seed, std::uint64_t offset);
  // How many draws kernels have seen. Of generators that are alike each makes those of the others.
  std::size_t draws() const;

 private:
  void end();

  // What work was found to write since all was waited for.
  struct Flow {
    struct Written {
      const std::byte* end;
      std::vector<void*> by;  // launches
    };
    std::vector<void*> first;  // launches that all others wait for
    std::vector<void*> last;   // that nothing waits for yet, sorted
    std::map<const std::byte*, Written> written;
    std::vector<std::shared_ptr<const void>> kept;
  };

  std::unique_ptr<Recorded::Parts> parts_;
  std::optional<Arena::Use> use_;
  std::unique_ptr<Flow> flow_;
  std::vector<void*> once_;             // the last launches of what is done once
  std::vector<const void*> constants_;  // sorted
  std::vector<Generator> generators_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> drawn_;  // seed and offset
};

// Work that waits for what it reads and not for what was queued before: a GPU runs what can be
// run, side by side.
//
//   Recording::SideBySide all(stream);
//   …                    // as Work, which says what it reads and writes
//   all.join();          // what comes now waits for all of it
//
// Work may not write to memory that other work has used. So all that is allocated meanwhile, by
// Work or not, is kept until join(), that nobody may be given it again (Storage::allocate). What is
// queued meanwhile and is no Work waits for everything, and everything behind waits for it. Does
// nothing where the stream is not recorded.
class Recording::SideBySide {
 public:
  explicit SideBySide(const Stream& stream);
  SideBySide(const SideBySide&) = delete;
  ~SideBySide() { join(); }
  void join();

 private:
  Recording* recording_;
};
class Recording::Work {
 public:
  // Of a recording that side_by_side() gave.
  Work(Recording& recording, std::span<const void* const> reads);
  Work(const Work&) = delete;
  // Is queued by now; what it wrote: memory, from its beginning.
  void wrote(const void* begin, std::size_t bytes);
  void finish();

 private:
  Recording& recording_;
  std::vector<void*> waits_for_;
  std::vector<std::pair<const std::byte*, std::size_t>> wrote_;
};

// Work that gives the same in every run. What is queued while a Once lives is run once, before the
// first run of the rest, which may read what it wrote; it may read nothing that the rest writes.
// What is allocated meanwhile is none of the recording's memory, which the rest writes over.
class Recording::Once {
 public:
  explicit Once(Recording& recording);
  Once(const Once&) = delete;
  ~Once();

 private:
  Recording& recording_;
  std::vector<void*> front_;  // of the rest
};

// Refuses what the host does with a stream that is recorded: "the host reads …".
void check_not_recorded(const Stream& stream, std::string_view what);

}  // namespace planck
