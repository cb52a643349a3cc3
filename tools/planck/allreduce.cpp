// planck allreduce: the ordered all-reduce against MPI's, on the same bytes and workers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "planck/core/exception.h"
#include "planck/dist/all_reduce.h"
#include "planck/dist/transport/mpi.h"
#include "tools/planck/commands.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct AllReduceArguments {
  std::vector<std::int64_t> bytes = {1024, 32768, 1 << 20, 25 << 20, 100 << 20};
  std::int64_t grains = 0;
  double min_seconds = 0.5;
  bool json = false;
};

struct Row {
  std::int64_t bytes, grains;
  int roots;  // of a worker, at most
  std::string way;
  double ordered, mpi, predicted;  // seconds
};

// Seconds of one call of each, the slowest worker's, the best of several rounds. They take turns:
// what else the machine does meets all of them.
std::vector<double> seconds_of(dist::Communicator& workers, double min_seconds,
                               const std::vector<std::function<void()>>& calls) {
  const auto slowest = [&](double mine) {
    std::vector<double> all(static_cast<std::size_t>(workers.size()));
    workers.all_gather(&mine, sizeof mine, all.data());
    return *std::max_element(all.begin(), all.end());
  };
  const auto timed = [&](const std::function<void()>& call, int times) {
    workers.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) call();
    return slowest(std::chrono::duration<double>(Clock::now() - begin).count() / times);
  };
  constexpr int kRounds = 7;
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  std::vector<int> times;
  for (const auto& call : calls)
    times.push_back(std::clamp(static_cast<int>(min_seconds / kRounds / timed(call, 2)), 1, 10000));
  for (int r = 0; r < kRounds; ++r)
    for (std::size_t c = 0; c < calls.size(); ++c)
      best[c] = std::min(best[c], timed(calls[c], times[c]));
  return best;
}

// What the cost model of docs/distributed.md is made of.
struct Costs {
  double latency, second_per_byte, add_per_byte;
};
Costs measure(dist::Communicator& workers, double min_seconds) {
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<float> mine(kCount, 1), other(kCount, 2);
  const int partner = workers.rank() ^ 1;
  const auto swap = [&](std::size_t bytes) {
    return [&, bytes] {
      if (partner >= workers.size()) return;
      const dist::Outgoing out{partner, mine.data(), bytes};
      const dist::Incoming in{partner, other.data(), bytes};
      workers.exchange({&out, 1}, {&in, 1});
    };
  };
  const Stream host = Stream::cpu(1);
  const auto seconds =
      seconds_of(workers, min_seconds, {swap(4), swap(kCount * sizeof(float)), [&] {
                                          dist::add_on_host(host, Dtype::f32, mine.data(),
                                                            other.data(), other.data(), kCount);
                                        }});
  const double latency = seconds[0], large = seconds[1], add = seconds[2];
  constexpr double kBytes = kCount * sizeof(float);
  return {latency, std::max(0.0, large - latency) / kBytes, add / kBytes};
}
double predicted(const Costs& c, const dist::Grains& grains, dist::Way way, double bytes) {
  const double w = grains.workers(), part = bytes * (w - 1) / w, roots = grains.most_roots();
  if (w == 1) return 0;
  if (way == dist::Way::gather)
    return std::ceil(std::log2(w)) * c.latency + roots * bytes * (w - 1) * c.second_per_byte +
           (roots * w - 1) * bytes * c.add_per_byte;
  if (way == dist::Way::halving)
    return 2 * std::log2(w) * c.latency + 2 * part * c.second_per_byte + part * c.add_per_byte;
  return 2 * (w - 1) * c.latency + (roots + 1) * part * c.second_per_byte +
         roots * part * c.add_per_byte;
}

// Whole numbers, so that every order gives one sum, which both all-reduces must find.
float element(int worker, std::size_t root, std::int64_t i) {
  return static_cast<float>((i * 7 + worker * 13 + static_cast<std::int64_t>(root) * 5) % 1000);
}

Row time_one(dist::Mpi& workers, const AllReduceArguments& a, std::int64_t bytes,
             const Costs& costs) {
  const std::int64_t count = bytes / 4;
  const dist::Grains grains(a.grains > 0 ? a.grains : workers.size(), workers.size());
  const std::size_t own = grains.roots(workers.rank()).size();
  std::vector<std::vector<float>> roots(std::max<std::size_t>(own, 1));
  for (std::size_t r = 0; r < roots.size(); ++r)
    for (std::int64_t i = 0; i < count; ++i)
      roots[r].push_back(own == 0 ? 0 : element(workers.rank(), r, i));
  std::vector<const void*> pointers;
  for (std::size_t r = 0; r < own; ++r) pointers.push_back(roots[r].data());
  std::vector<float> sum(static_cast<std::size_t>(count)), unordered(sum.size());
  dist::AllReduce reduce(workers);
  const dist::Way way = dist::way_for(grains, static_cast<std::size_t>(bytes));
  Row row{bytes, grains.count(), grains.most_roots(), std::string(name(way)), 0, 0, 0};
  const auto seconds =
      seconds_of(workers, a.min_seconds,
                 {[&] { reduce(grains, pointers, sum.data(), count, Dtype::f32); },
                  [&] { workers.unordered_all_reduce(roots[0].data(), unordered.data(), count); }});
  row.ordered = seconds[0], row.mpi = seconds[1];
  row.predicted = predicted(costs, grains, way, static_cast<double>(bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    float right = 0;
    for (int w = 0; w < workers.size(); ++w)
      for (std::size_t r = 0; r < grains.roots(w).size(); ++r) right += element(w, r, i);
    if (sum[static_cast<std::size_t>(i)] != right)
      raise(ErrorCode::device, fmt::format("the sum of element {} is {}, it must be {}", i,
                                           sum[static_cast<std::size_t>(i)], right));
  }
  return row;
}

int all_reduce(const AllReduceArguments& a, dist::Mpi& workers) {
  for (const std::int64_t b : a.bytes)
    if (b < 4 || b % 4 != 0 || b > (std::int64_t{1} << 31))
      raise(ErrorCode::invalid_problem,
            fmt::format("--bytes has {}, sizes are multiples of 4 up to 2 GiB", b));
  if (a.grains < 0)
    raise(ErrorCode::invalid_problem, fmt::format("--grains is {}, at least 0", a.grains));
  const Costs costs = measure(workers, a.min_seconds);
  std::vector<Row> rows;
  for (const std::int64_t b : a.bytes) rows.push_back(time_one(workers, a, b, costs));
  if (workers.rank() != 0) return kOk;
  if (a.json) {
    nlohmann::ordered_json o = {{"workers", workers.size()},
                                {"workers_on_this_machine", workers.local_size()},
                                {"latency_seconds", costs.latency},
                                {"seconds_per_byte", costs.second_per_byte},
                                {"add_seconds_per_byte", costs.add_per_byte}};
    o["rows"] = nlohmann::ordered_json::array();
    for (const Row& r : rows)
      o["rows"].push_back({{"bytes", r.bytes},
                           {"grains", r.grains},
                           {"roots", r.roots},
                           {"way", r.way},
                           {"ordered_seconds", r.ordered},
                           {"mpi_seconds", r.mpi},
                           {"ratio", r.ordered / r.mpi},
                           {"predicted_seconds", r.predicted}});
    fmt::print("{}\n", o.dump(2));
    return kOk;
  }
  using enum Table::Align;
  Table table({{"bytes", right},
               {"grains", right},
               {"roots", right},
               {"way"},
               {"ordered, ms", right},
               {"MPI, ms", right},
               {"ratio", right},
               {"model, ms", right}});
  for (const Row& r : rows)
    table.add({fmt::format("{}", r.bytes), fmt::format("{}", r.grains), fmt::format("{}", r.roots),
               r.way, fmt::format("{:.4f}", r.ordered * 1e3), fmt::format("{:.4f}", r.mpi * 1e3),
               fmt::format("{:.2f}", r.ordered / r.mpi), fmt::format("{:.4f}", r.predicted * 1e3)});
  fmt::print(
      "{} workers; two of them exchange a message in {:.1f} µs and {:.2f} GB/s, one adds "
      "{:.2f} GB/s\n{}",
      workers.size(), costs.latency * 1e6, 1e-9 / costs.second_per_byte, 1e-9 / costs.add_per_byte,
      table.text());
  return kOk;
}

}  // namespace

void add_allreduce(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<AllReduceArguments>();
  CLI::App* command = app.add_subcommand(
      "allreduce", "Time the ordered all-reduce against MPI_Allreduce, under mpirun");
  command->add_option("--bytes", a->bytes, "Sizes to time")->delimiter(',')->capture_default_str();
  command->add_option("--grains", a->grains,
                      "Grains of all workers together; 0: one each. More than a multiple of 2^k "
                      "make workers send several roots");
  command->add_option("--min-time", a->min_seconds, "Seconds to measure each figure at least")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", a->json, "As JSON");
  command->footer(
      "Examples:\n"
      "  mpirun -np 8 planck allreduce\n"
      "  mpirun -np 3 planck allreduce --bytes 1048576,26214400 --json");
  command->callback([a, &exit_code] {
    try {
      const auto workers = value_or_throw(dist::Mpi::join());
      exit_code =
          dist::or_abort(*workers, "planck allreduce", [&] { return all_reduce(*a, *workers); });
    } catch (const Exception& e) {
      exit_code = bad_input("allreduce", e.what());
    }
  });
}

}  // namespace planck::cli
