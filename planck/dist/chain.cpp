#include "planck/dist/chain.h"

#include <algorithm>
#include <limits>

#include "planck/core/refuse.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tile.h"

namespace planck::dist {

namespace {

using gemm::kMostDepth;
constexpr std::int64_t kRows = 96;  // of a block that goes through the pipe, at most

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

// Adds the products of some rows to `sums`, [rows, step], where they are.
template <class C>
void continue_chains(const ChainedProduct& p, std::int64_t first, std::int64_t rows, C* sums,
                     std::int64_t step) {
  const auto& ops = gemm::tile_ops<C>();
  const int width = ops.vectors * ops.lanes;
  std::vector<C> a(static_cast<std::size_t>(round_up(rows, ops.rows) * kMostDepth)),
      b(static_cast<std::size_t>(width * kMostDepth));
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kMostDepth) {
    const std::int64_t k = std::min<std::int64_t>(kMostDepth, p.k - k0);
    gemm::pack({p.a, p.dtype, first * p.k + k0, p.k, 1}, rows, k, ops.rows, a.data());
    for (std::int64_t j = 0; j < p.n; j += width) {
      const int columns = static_cast<int>(std::min<std::int64_t>(width, p.n - j));
      const int wide = static_cast<int>(round_up(columns, ops.lanes));
      gemm::pack({p.b, p.dtype, k0 * p.n + j, 1, p.n}, columns, k, wide, b.data());
      ops.multiply({a.data(), rows, b.data(), wide, columns, k, sums + j, step, true, false});
    }
  }
}

template <class C>
void through_all(Communicator& workers, const ChainedProduct& p) {
  const int rank = workers.rank(), last = workers.size() - 1;
  const std::int64_t step = round_up(p.n, gemm::tile_ops<C>().lanes);
  const std::int64_t block = std::clamp<std::int64_t>(p.m / (2 * workers.size()), 1, kRows);
  std::vector<C> sums(static_cast<std::size_t>(block * step));
  for (std::int64_t i = 0; i < p.m; i += block) {
    const std::int64_t rows = std::min(block, p.m - i);
    const std::size_t bytes = static_cast<std::size_t>(rows * step) * sizeof(C);
    if (rank == 0)
      std::fill(sums.begin(), sums.end(), C(0));
    else
      workers.receive(rank - 1, sums.data(), bytes);
    continue_chains(p, i, rows, sums.data(), step);
    if (rank < last) {
      workers.send(rank + 1, sums.data(), bytes);
      continue;
    }
    for (C& s : sums)
      if (s != s) s = std::numeric_limits<C>::quiet_NaN();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < p.n; j += 1024)
        gemm::store_sums(p.dtype, p.c, (i + r) * p.n + j, 1,
                         static_cast<int>(std::min<std::int64_t>(1024, p.n - j)),
                         sums.data() + r * step + j);
  }
  workers.broadcast(p.c, bytes_for(p.dtype, p.m * p.n), last);
}

}  // namespace

void multiply(Communicator& all, const ChainedProduct& p) {
  Communicator& workers = all.host();
  if (p.m == 0 || p.n == 0) return;
  if (p.dtype == Dtype::f64) return through_all<double>(workers, p);
  if (p.dtype != Dtype::f32 && p.dtype != Dtype::f16 && p.dtype != Dtype::bf16)
    refuse("chained product: {}, it must be a float", {p.dtype});
  through_all<float>(workers, p);
}

}  // namespace planck::dist
