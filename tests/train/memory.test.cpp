// Arenas, and what cannot be recorded.
#include <gtest/gtest.h>

#include <set>

#include "planck/core/allocator.h"
#include "planck/core/stream/recording.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

void* place(const Result<Buffer>& b) { return b->data(); }

TEST(Arena, KeepsItsBlocks) {
  const Stream stream = Stream::cpu(1);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}}) {
    release_cached(Device::cpu());
    void* cached = nullptr;
    {
      const auto before = allocate(stream, bytes);
      cached = place(before);
    }
    if (bytes > 4096) {
      const auto other = allocate(stream, bytes);
      EXPECT_EQ(place(other), cached) << "a block that waits is given out again";
    }
    std::set<void*> own;
    {
      const Arena arena(stream);
      {
        const Arena::Use use(arena);
        {
          const auto a = allocate(stream, bytes), b = allocate(stream, bytes);
          own = {place(a), place(b)};
          EXPECT_EQ(own.size(), 2u);
          if (bytes > 4096) {
            EXPECT_TRUE(own.contains(cached)) << "cached blocks come first";
          }
        }
        const auto again = allocate(stream, bytes);
        EXPECT_TRUE(own.contains(place(again))) << "used again within";
      }
      EXPECT_GE(arena.bytes(), 2 * bytes);
      EXPECT_LE(arena.bytes(), 3 * bytes);
      release_cached(Device::cpu());  // does not touch them
      std::vector<Result<Buffer>> others;
      for (int i = 0; i < 8; ++i) {
        others.push_back(allocate(stream, bytes));
        EXPECT_FALSE(own.contains(place(others.back()))) << "nobody else is given them";
      }
      others.clear();
      release_cached(Device::cpu());
      const Arena::Use use(arena);
      const auto more = allocate(stream, bytes);
      EXPECT_TRUE(own.contains(place(more)));
    }
    if (bytes > 4096) {  // small ones go to the thread's own cache
      const auto a = allocate(stream, bytes), b = allocate(stream, bytes);
      EXPECT_EQ((std::set<void*>{place(a), place(b)}), own) << "the stream has them again";
    }
  }
}

TEST(Arena, MayBeOutlived) {
  const Stream stream = Stream::cpu(1);
  const std::size_t before = allocator_stats(Device::cpu()).in_use;
  Buffer kept;
  {
    const Arena arena(stream);
    const Arena::Use use(arena);
    kept = std::move(*allocate(stream, 300'000));
    EXPECT_GE(allocator_stats(Device::cpu()).in_use, before + 300'000);
  }
  static_cast<char*>(kept.data())[299'999] = 1;
  kept = Buffer();
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, before);
  release_cached(Device::cpu());
  EXPECT_EQ(allocator_stats(Device::cpu()).cached, 0u);
}

TEST(Arena, SaysWhenMemoryRunsOut) {
  const Stream stream = Stream::cpu(1);
  {
    const Arena arena(stream);
    const Arena::Use use(arena);
    const auto none = allocate(stream, std::size_t{1} << 60);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(arena.bytes(), 0u);
  }
  EXPECT_TRUE(allocate(stream, 300'000));
}

TEST(Recording, IsOfCudaAlone) {
  EXPECT_EQ(message([] { Recording of_cpu(Stream::cpu()); }),
            "recording: a stream of the CPU runs what it is given at once");
  EXPECT_EQ(Recording::of(Stream::cpu()), nullptr);
}

TEST(Recording, RunsAgainWhatItWasGiven) {
  const auto gpu = Stream::cuda(0);
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  Recording recording(*gpu);
  EXPECT_EQ(Recording::of(*gpu), &recording);
  EXPECT_EQ(message([&] { Recording second(*gpu); }), "recording: one is under way");
  EXPECT_EQ(message([&] { check_not_recorded(*gpu, "the host reads"); }),
            "recording: the host reads");
  Buffer fresh = std::move(*allocate(*gpu, std::size_t{5} << 20));  // asked of CUDA meanwhile
  fresh = Buffer();
  const Recorded nothing = recording.finish();
  EXPECT_GE(nothing.bytes(), std::size_t{5} << 20);
  nothing.run();
  nothing.run();
  EXPECT_TRUE(gpu->synchronize());
}

}  // namespace

}  // namespace planck::test
