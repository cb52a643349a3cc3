// The ordered all-reduce among processes, against a recursive sum: a program for mpirun. The last
// line of the first worker is a hash that no number of workers changes. With an argument: what is
// wrong, or only slow, among them; tests/dist/test_failures.py says how each must end.
#include "planck/dist/transport/mpi.h"

#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "planck/core/exception.h"
#include "planck/dist/all_reduce.h"
#include "planck/dist/checkpoint.h"
#include "planck/dist/sparse_rows.h"
#include "planck/dist/transport/staged.h"
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

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

int run(Communicator& workers) {
  Sha256 hash;
  int wrong = 0;
  for (const std::int64_t n : {1, 2, 3, 7, 8, 16, 23})
    for (const std::int64_t count : {8, 5000, 300000 / 8 * 8})
      for (const Way way : {Way::automatic, Way::halving, Way::direct, Way::gather})
        if (count < 10000 || n == 7 || n == 8) wrong += check(workers, hash, n, count, way);
  // Workers that stage their messages among those that do not.
  Staged staged(workers, Stream::cpu(1));
  Sha256 mixed;
  for (const std::int64_t count : {8, 5000})
    for (const Way way : {Way::automatic, Way::gather})
      wrong += check(workers.rank() % 2 == 1 ? static_cast<Communicator&>(staged) : workers, mixed,
                     7, count, way);
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

// Worker 0 sends so many bytes, worker 1 expects others.
int other_lengths(Communicator& workers, std::size_t sent, std::size_t expected) {
  std::vector<std::byte> bytes(std::max(sent, expected));
  if (workers.rank() == 0) workers.send(1, bytes.data(), sent);
  if (workers.rank() == 1) workers.receive(0, bytes.data(), expected);
  workers.barrier();
  return 0;
}
// Everyone waits for bytes that nobody sends.
int nothing_arrives(Communicator& workers, std::size_t bytes) {
  std::vector<std::byte> in(bytes);
  workers.receive((workers.rank() + 1) % workers.size(), in.data(), bytes);
  return 0;
}
// Worker 0 leaves while the others wait for it.
int one_leaves(Communicator& workers) {
  int value = 0;
  if (workers.rank() != 0) workers.receive(0, &value, sizeof value);
  return 0;
}
int some_fail(Communicator& workers, int first) {
  workers.barrier();
  if (workers.rank() >= first) raise(ErrorCode::io, "the disk is full");
  workers.barrier();
  return 0;
}
int one_throws_a_number(Communicator& workers) {
  workers.barrier();
  if (workers.rank() == 1) throw 7;
  workers.barrier();
  return 0;
}
// An exchange of worker 1 throws when the first message has arrived; what was to come next must not
// be written where it was expected: that memory may be something else's by then.
int one_gives_an_exchange_up(Communicator& workers) {
  const auto apart = workers.duplicate();
  const std::vector<int> sent(1000, 7);
  const std::size_t bytes = sent.size() * sizeof(int);
  if (workers.rank() == 0) {
    workers.send(1, sent.data(), bytes);
    apart->barrier();
    workers.send(1, sent.data(), bytes);
  } else {
    std::vector<int> first(1000), second(1000), again(1000);
    const std::vector<Incoming> in{{0, first.data(), bytes}, {0, second.data(), bytes}};
    try {
      workers.exchange({}, in, [](std::size_t) { raise(ErrorCode::io, "given up"); });
    } catch (const Exception&) {
    }
    apart->barrier();
    workers.receive(0, again.data(), bytes);
    if (first != sent || again != sent || second != std::vector<int>(1000))
      raise(ErrorCode::device, "what was given up was received");
  }
  workers.barrier();
  return 0;
}
// The last worker computes while all others wait.
int one_is_slow(Communicator& workers, double seconds) {
  if (workers.rank() == workers.size() - 1) pause(seconds);
  workers.barrier();
  if (workers.rank() == 0) std::printf("done\n");
  return 0;
}
// Both workers wait all the time, and a part of what they wait for arrives every two seconds.
int bytes_are_slow(Communicator& workers, double seconds) {
  const auto apart = workers.duplicate();
  const auto parts = static_cast<std::size_t>(seconds / 2);
  int value = 0;
  if (workers.rank() == 0) {
    std::vector<int> values(parts);
    std::vector<Incoming> in;
    for (int& v : values) in.push_back({1, &v, sizeof v});
    apart->exchange({}, in);
    workers.send(1, &value, sizeof value);
    std::printf("done\n");
  } else {
    std::thread sends([&] {
      for (std::size_t i = 0; i < parts; ++i) {
        pause(2);
        const int part = 7;
        apart->send(0, &part, sizeof part);
      }
    });
    workers.receive(0, &value, sizeof value);
    sends.join();
  }
  return 0;
}

nn::StateDict part_of(int rank, float value) {
  const std::vector<float> numbers(20000, value);
  const auto bytes = std::as_bytes(std::span(numbers));
  return {
      {"of worker " + std::to_string(rank), {Dtype::f32, {20000}, {bytes.begin(), bytes.end()}}}};
}
// A checkpoint in parts in the folder of the environment; the disk is full for the next one of
// worker 1.
int disk_fills_up(Communicator& workers) {
  const std::string path = std::string(std::getenv("MPI_TEST_FOLDER")) + "/state.safetensors";
  save_in_parts(workers, path, part_of(workers.rank(), 1));
  (void)std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{40000, 40000};
  if (workers.rank() == 1) setrlimit(RLIMIT_FSIZE, &full);
  save_in_parts(workers, path, part_of(workers.rank(), 2));
  return 0;
}
// What stands there: the first of these checkpoints, of as many workers.
int reads_the_first(Communicator& workers, int parts) {
  const std::string path = std::string(std::getenv("MPI_TEST_FOLDER")) + "/state.safetensors";
  nn::StateDict expected;
  for (int r = 0; r < parts; ++r) expected.merge(part_of(r, 1));
  if (value_or_throw(read_checkpoint(path)).state != expected)
    raise(ErrorCode::io, "another state was read");
  save_in_parts(workers, path, part_of(workers.rank(), 3));  // leaves nothing of the others
  return 0;
}

int run(Communicator& workers, const std::string& what, double number) {
  if (what.empty()) return run(workers);
  if (what == "full") return disk_fills_up(workers);
  if (what == "read") return reads_the_first(workers, static_cast<int>(number));
  if (what == "short") return other_lengths(workers, 4, 8);
  if (what == "long") return other_lengths(workers, 8, 4);
  if (what == "lost") return nothing_arrives(workers, static_cast<std::size_t>(number));
  if (what == "leaves") return one_leaves(workers);
  if (what == "fail") return some_fail(workers, static_cast<int>(number));
  if (what == "number") return one_throws_a_number(workers);
  if (what == "gives_up") return one_gives_an_exchange_up(workers);
  if (what == "slow") return one_is_slow(workers, number);
  if (what == "trickle") return bytes_are_slow(workers, number);
  raise(ErrorCode::invalid_problem, what + ": no such test");
}

}  // namespace
}  // namespace planck::dist

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const double number = count > 2 ? std::atof(arguments[2]) : 0;
  const auto workers = planck::value_or_throw(planck::dist::Mpi::join());
  return planck::dist::or_abort(*workers, "mpi_test",
                                [&] { return planck::dist::run(*workers, what, number); });
}
