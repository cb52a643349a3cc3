// planck allreduce: the ordered all-reduce against MPI's, on the same bytes and workers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "planck/core/exception.h"
#include "planck/dist/all_reduce.h"
#include "planck/dist/transport/mpi.h"
#include "tools/planck/allreduce_model.h"
#include "tools/planck/commands.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

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

// Whole numbers, so that every order gives one sum, which both all-reduces must find.
float element(int worker, std::size_t root, std::int64_t i) {
  return static_cast<float>((i * 7 + worker * 13 + static_cast<std::int64_t>(root) * 5) % 1000);
}

Row time_one(dist::Mpi& workers, const AllReduceArguments& a, std::int64_t bytes,
             CostModel& model) {
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
  row.predicted = model.predicted(grains, way, bytes);
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
  CostModel model(workers, a.min_seconds);
  std::vector<Row> rows;
  for (const std::int64_t b : a.bytes) rows.push_back(time_one(workers, a, b, model));
  if (workers.rank() != 0) return kOk;
  if (a.json) {
    nlohmann::ordered_json o = {{"workers", workers.size()},
                                {"workers_on_this_machine", workers.local_size()},
                                {"latency_seconds", model.latency()},
                                {"seconds_per_byte", model.per_byte()},
                                {"add_seconds_per_byte", model.add_per_byte()}};
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
      workers.size(), model.latency() * 1e6, 1e-9 / model.per_byte(), 1e-9 / model.add_per_byte(),
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
