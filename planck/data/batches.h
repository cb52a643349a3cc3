// The order in which an epoch visits its examples, and its batches.
//
//   shuffled   a permutation of 0 … n − 1, every one as likely as any other: a function of seed and
//              epoch alone, the same on every machine. Fisher and Yates: for i = n − 1 … 1 swap i
//              with j, uniform in 0 … i. j is the low bits, as many as i has, of the stream's next
//              64-bit number, or of the one after it while j > i. The stream: random_stream.h; its
//              number k is words 2 (k % 2) and 2 (k % 2) + 1 of counter k / 2, the low word first
//   Batches    consecutive parts of an order
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planck/core/result.h"

namespace planck {

// n <= 0 gives none.
std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed, std::uint64_t epoch);

// What becomes of a last batch that is not full.
enum class LastBatch : std::uint8_t { keep, drop };

// for (std::span<const std::int64_t> batch : batches) …
class Batches {
 public:
  // ErrorCode::invalid_problem where the size is below 1, or nothing is left of what was there.
  static Result<Batches> create(std::vector<std::int64_t> order, std::int64_t batch_size,
                                LastBatch last = LastBatch::keep);

  std::int64_t count() const { return count_; }
  std::span<const std::int64_t> operator[](std::int64_t batch) const;

  class Iterator {
   public:
    Iterator(const Batches* batches, std::int64_t at) : batches_(batches), at_(at) {}
    std::span<const std::int64_t> operator*() const { return (*batches_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Batches* batches_;
    std::int64_t at_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, count_}; }

 private:
  std::vector<std::int64_t> order_;
  std::int64_t batch_size_ = 1, count_ = 0;
};

}  // namespace planck
