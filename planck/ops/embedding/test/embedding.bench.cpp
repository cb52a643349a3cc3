// Tables of the embedding family worth timing: a language model's, a wide one in bf16, a
// recommender's.
#include <algorithm>

#include "planck/verify/bench/bench.h"

namespace planck::verify {

namespace {

struct Table {
  std::int64_t rows, dim, count;  // V, D, N
  Dtype dtype;
};
constexpr Table kLanguage = {50257, 768, 65536, Dtype::f32};
constexpr Table kWide = {128256, 4096, 16384, Dtype::bf16};
constexpr Table kRecommender = {1'000'000, 64, 1 << 20, Dtype::f32};

enum class Hits : std::uint8_t { uniform, zipf, one_row };
constexpr std::string_view kHitNames[] = {"uniform", "zipf", "one row"};

CaseInput indices(const Table& t, Hits hits) {
  return {.name = "indices",
          .dtype = Dtype::i64,
          .shape = {t.count},
          .fill = hits == Hits::zipf ? Fill::zipf : Fill::integers,
          .range =
              hits == Hits::one_row ? FillRange{t.rows / 2, t.rows / 2} : FillRange{0, t.rows - 1}};
}

BenchCase make_bench(std::string_view op, const Table& t, Hits hits) {
  const bool backward = op.ends_with("_backward"), bag = op.starts_with("embedding_bag");
  constexpr std::int64_t kBagEntries = 32;
  const std::int64_t bags = t.count / kBagEntries;
  const std::int64_t gathered = bag ? bags : t.count;
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = op;
  if (backward) c.attributes["num_embeddings"] = std::to_string(t.rows);
  c.inputs.push_back({.name = backward ? "dout" : "weight",
                      .dtype = t.dtype,
                      .shape = {backward ? gathered : t.rows, t.dim}});
  c.inputs.push_back(indices(t, hits));
  if (bag)
    c.inputs.push_back({.name = "offsets",
                        .dtype = Dtype::i64,
                        .shape = {bags},
                        .fill = Fill::ascending,
                        .range = {0, t.count}});
  bench.note = std::string(kHitNames[static_cast<std::size_t>(hits)]);
  if (!backward) {  // a row that is hit again comes from a cache
    bench.note = "N=" + std::to_string(t.count) + " " + bench.note;
    bench.moved["weight"] = (hits == Hits::one_row ? 1 : std::min(t.rows, t.count)) * t.dim;
  }
  return bench;
}

// Milliseconds on one H200.
double aim(const Table& t, Hits hits) {
  if (t.dim == kLanguage.dim) return 0.140;
  if (t.dim == kWide.dim) return hits == Hits::zipf ? 0.345 : 0;
  return hits == Hits::uniform ? 0 : 0.265;
}

}  // namespace

std::vector<BenchCase> embedding_benches(DeviceKind) {
  std::vector<BenchCase> all;
  for (const Table& t : {kLanguage, kWide, kRecommender})
    for (Hits hits : {Hits::uniform, Hits::zipf, Hits::one_row}) {
      all.push_back(make_bench("embedding_backward", t, hits));
      all.back().aim_ms = aim(t, hits);
      all.back().cpu_share = t.count >= 32768 ? 0.6 : 0;
      if (hits != Hits::one_row) all.push_back(make_bench("embedding", t, hits));
    }
  for (std::string_view op :
       {"embedding_sparse_backward", "embedding_bag", "embedding_bag_backward"})
    for (const Table& t : {kLanguage, kRecommender}) all.push_back(make_bench(op, t, Hits::zipf));
  for (std::string_view op : {"embedding", "embedding_backward"}) {  // the cost of one call
    all.push_back(make_bench(op, {64, 64, 16, Dtype::f32}, Hits::uniform));
    all.back().call = true;
  }
  return all;
}

}  // namespace planck::verify
