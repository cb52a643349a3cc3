// Grains that go through a model together, so that a layer can ask, in the middle of a forward or
// backward pass, for a sum over all grains of the batch (sync_batch_norm.h).
//
// A worker's grains have a thread each, of which one runs at a time: the first until it asks for a
// sum, then the second, … When the last has asked, the workers exchange their roots, and the first
// goes on. The sum is the canonical one (grains.h); who has which grain changes no bit.
//
// All grains ask for the same sums in the same order. Where they do not, on one worker or on
// several, all of them are told which grain asked for what; nobody waits forever.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "planck/core/dtype.h"
#include "planck/dist/grains.h"
#include "planck/dist/transport/communicator.h"
#include "planck/dist/transport/courier.h"

namespace planck::dist {

// What a grain does. `pauses` and `goes_on` are called on its thread where others run in between.
struct GrainWork {
  std::function<void(std::int64_t grain)> run, pauses, goes_on;
};

class Meeting {
 public:
  // Of the workers, which all make theirs at the same time.
  explicit Meeting(Communicator& workers);
  ~Meeting();
  Meeting(const Meeting&) = delete;

  // Runs this worker's grains. Called by all workers, also by those without a grain.
  void run(const Grains& grains, const GrainWork& work);

  // The meeting of the grain that this thread is running; null where there is no DataParallel.
  // Refused where grains run one after the other.
  static Meeting* current();
  static void grains_run_apart(bool apart);  // on this thread

  // For a grain: its numbers become the canonical sum over all grains, in f32 or f64, on the host.
  void sum(void* numbers, std::int64_t count, Dtype dtype);
  // The sum of one whole number of each grain.
  std::int64_t total(std::int64_t number);

 private:
  enum class Kind : std::int32_t { nothing, array, number, end };
  struct Wanted {
    Kind kind = Kind::nothing;
    Dtype dtype = Dtype::f32;
    std::int64_t count = 0;
    bool operator==(const Wanted&) const = default;
    std::string text() const;
  };
  struct Request {
    Wanted wanted;
    std::int64_t number = 0;
    void* numbers = nullptr;
  };
  struct Member;  // whose thread this is

  void be(std::size_t index);
  void ask(const Request& request);
  void wait_for_turn(std::size_t index);
  Kind settle();  // all grains' requests
  Request agreed_here() const;
  void add_up(const Wanted& wanted);
  void fail();

  std::unique_ptr<Communicator> workers_;
  std::vector<std::unique_ptr<Courier>> threads_;  // of the second grain, the third, …
  const Grains* grains_ = nullptr;
  const GrainWork* work_ = nullptr;
  std::int64_t first_ = 0;  // grain of this worker
  std::vector<Request> requests_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t turn_ = 0;
  std::exception_ptr failed_;
};

}  // namespace planck::dist
