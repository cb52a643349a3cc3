// What every thread shares whatever it works on: the allocator, and the streams of the defaults.
// Built with the thread sanitizer alone.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/core/exception.h"

namespace planck::test {

namespace {

constexpr std::size_t kThreads = 8;

template <class F>
void on_threads(const F& f) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) threads.emplace_back(f, t);
  for (auto& t : threads) t.join();
}

// Blocks filled by one thread, and the byte that each is filled with.
class Passed {
 public:
  void put(Buffer buffer, unsigned char byte) {
    std::lock_guard lock(mutex_);
    all_.emplace_back(std::move(buffer), byte);
  }
  bool take(std::pair<Buffer, unsigned char>& to) {
    std::lock_guard lock(mutex_);
    if (all_.empty()) return false;
    to = std::move(all_.front());
    all_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<Buffer, unsigned char>> all_;
};

// Small blocks, which a thread keeps for itself, and large ones, which all share; freed by another
// thread than asked for them, while one returns what is cached to the system.
TEST(Allocator, ServesSeveralThreads) {
  const Stream stream = Stream::cpu(1);
  const auto before = allocator_stats(Device::cpu()).in_use;
  {
    std::vector<Passed> passed(kThreads);
    std::atomic<int> spoiled{0};
    on_threads([&](std::size_t t) {
      for (std::size_t i = 0; i < 300; ++i) {
        Buffer buffer = value_or_throw(allocate(stream, 40 + (i * 37 + t * 11) % 9000));
        const auto byte = static_cast<unsigned char>(t * 31 + i);
        std::memset(buffer.data(), byte, buffer.bytes());
        passed[(t + 1) % kThreads].put(std::move(buffer), byte);
        if (std::pair<Buffer, unsigned char> got; i % 3 != 0 && passed[t].take(got)) {
          const auto* data = static_cast<const unsigned char*>(got.first.data());
          for (std::size_t k = 0; k < got.first.bytes(); ++k)
            if (data[k] != got.second) ++spoiled;
        }
        if (t == 0 && i % 50 == 0) release_cached(Device::cpu());
        if (t == 1 && i % 50 == 0) reset_peak(Device::cpu());
      }
    });
    EXPECT_EQ(spoiled, 0) << "two owners wrote to one block";
    EXPECT_GT(allocator_stats(Device::cpu()).in_use, before);
  }
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, before);
}

TEST(Streams, OfTheDefaultsAreFoundByAllThreads) {
  on_threads([&](std::size_t) {
    for (int i = 0; i < 200; ++i) {
      const Stream stream = backend_detail::shared_stream(Device::cpu());
      EXPECT_EQ(stream.device(), Device::cpu());
      EXPECT_GE(stream.threads(), 1);
    }
  });
}

// Tensors that share one storage: the last owner, whichever thread that is, frees it.
TEST(Storage, IsSharedByThreads) {
  const auto before = allocator_stats(Device::cpu()).in_use;
  {
    auto shared = StoredView::empty(Stream::cpu(1), Dtype::f32, {1000});
    std::memset(shared.view.data, 0, 4000);
    std::vector<StoredView> copies(kThreads, shared);
    shared = {};
    on_threads([&](std::size_t t) {
      StoredView mine = std::move(copies[t]);
      for (int i = 0; i < 100; ++i) {
        const StoredView copy = mine;
        EXPECT_EQ(static_cast<const float*>(copy.view.data)[i], 0);
      }
    });
  }
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, before);
}

}  // namespace

}  // namespace planck::test
