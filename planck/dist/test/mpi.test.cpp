// The ordered all-reduce among processes, against a recursive sum: a program for mpirun. The last
// line of the first worker is a hash that no number of workers changes.
#include "planck/dist/transport/mpi.h"

#include <bit>
#include <cmath>
#include <cstdio>

#include "planck/core/exception.h"
#include "planck/dist/all_reduce.h"
#include "planck/dist/sparse_rows.h"
#include "planck/io/sha256.h"

namespace planck::dist {

namespace {

float element(std::int64_t g, std::int64_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(g * 2654435761 + i * 40503 + 12345) * std::uint32_t{2246822519};
  const bool row = ((i / 8) + g) % 3 == 0;  // rows of 8, of which a grain has every third
  return row ? std::ldexp(static_cast<float>(mixed >> 8) - 8388608.0f,
                          static_cast<int>(mixed % 13) - 24)
             : 0.0f;
}
float canonical(std::int64_t first, std::int64_t n, std::int64_t i) {
  if (n == 1) return element(first, i);
  std::int64_t p = 1;
  while (2 * p < n) p *= 2;
  return canonical(first, p, i) + canonical(first + p, n - p, i);
}

int check(Communicator& workers, Sha256& hash, std::int64_t n, std::int64_t count, Way way) {
  const Grains grains(n, workers.size());
  if (way == Way::halving && !grains.is_binary()) way = Way::automatic;
  std::vector<std::vector<float>> roots;
  for (const Range& r : grains.roots(workers.rank())) {
    roots.emplace_back();
    for (std::int64_t i = 0; i < count; ++i)
      roots.back().push_back(canonical(r.first, r.count(), i));
  }
  std::vector<const void*> pointers;
  std::vector<const float*> tables;
  for (const auto& r : roots) pointers.push_back(r.data()), tables.push_back(r.data());
  std::vector<float> sum(static_cast<std::size_t>(count), -1), by_rows(sum);
  AllReduce reduce(workers, {.way = way, .piece_bytes = 1000});
  reduce(grains, pointers, sum.data(), count, Dtype::f32);
  all_reduce_rows(workers, grains, tables, by_rows.data(), {count / 8, 8});
  int wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto right = std::bit_cast<std::uint32_t>(canonical(0, n, i));
    wrong += std::bit_cast<std::uint32_t>(sum[static_cast<std::size_t>(i)]) != right;
    wrong += std::bit_cast<std::uint32_t>(by_rows[static_cast<std::size_t>(i)]) != right;
  }
  hash.update(std::as_bytes(std::span(sum)));
  return wrong;
}

int run(Communicator& workers) {
  Sha256 hash;
  int wrong = 0;
  for (const std::int64_t n : {1, 2, 3, 7, 8, 16, 23})
    for (const std::int64_t count : {8, 5000, 300000 / 8 * 8})
      for (const Way way : {Way::automatic, Way::halving, Way::direct, Way::gather})
        if (count < 10000 || n == 7 || n == 8) wrong += check(workers, hash, n, count, way);
  const auto apart = workers.duplicate();
  int value = workers.rank() == 0 ? 41 : 0;
  apart->broadcast(&value, sizeof value, 0);
  wrong += value != 41;
  const std::vector<std::byte> mine(static_cast<std::size_t>(workers.rank()) * 3, std::byte{7});
  const auto all = gather_all(*apart, mine);
  for (std::size_t r = 0; r < all.size(); ++r) wrong += all[r].size() != 3 * r;
  workers.barrier();
  if (wrong > 0) raise(ErrorCode::device, std::to_string(wrong) + " elements are wrong");
  if (workers.rank() == 0) std::printf("%s\n", hash.hex().c_str());
  return 0;
}

}  // namespace
}  // namespace planck::dist

int main() {
  const auto workers = planck::value_or_throw(planck::dist::Mpi::join());
  return planck::dist::or_abort(*workers, "mpi_test", [&] { return planck::dist::run(*workers); });
}
