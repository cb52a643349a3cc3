#include "planck/dist/split/chain.h"

#include <algorithm>
#include <limits>

#include "planck/core/refuse.h"
#include "planck/dist/split/chain_parts-inl.h"

namespace planck::dist {

namespace {

constexpr std::int64_t kRows = 96;  // of a block that goes through the pipe, at most
static_assert(kRows <= gemm::kExactRows);

// add(first, rows, sums) adds this worker's products to sums [rows, step]; store(first, rows, sums)
// is called by the last worker, which then has C.
template <class Sum, class Add, class Store>
void through_all(Communicator& workers, const ChainedProduct& p, std::int64_t step, const Add& add,
                 const Store& store) {
  const int rank = workers.rank(), last = workers.size() - 1;
  const std::int64_t block = std::clamp<std::int64_t>(p.m / (2 * workers.size()), 1, kRows);
  std::vector<Sum> sums(static_cast<std::size_t>(block * step));
  for (std::int64_t i = 0; i < p.m; i += block) {
    const std::int64_t rows = std::min(block, p.m - i);
    const std::size_t bytes = static_cast<std::size_t>(rows * step) * sizeof(Sum);
    if (rank == 0)
      std::fill(sums.begin(), sums.end(), Sum{});
    else
      workers.receive(rank - 1, sums.data(), bytes);
    add(i, rows, sums.data());
    if (rank < last)
      workers.send(rank + 1, sums.data(), bytes);
    else
      store(i, rows, sums.data());
  }
  workers.broadcast(p.c, bytes_for(p.dtype, p.m * p.n), last);
}

template <class C>
void store(const ChainedProduct& p, std::int64_t row, C* sums) {
  for (std::int64_t j = 0; j < p.n; ++j)
    if (sums[j] != sums[j]) sums[j] = std::numeric_limits<C>::quiet_NaN();
  for (std::int64_t j = 0; j < p.n; j += 1024)
    gemm::store_sums(p.dtype, p.c, row * p.n + j, 1,
                     static_cast<int>(std::min<std::int64_t>(1024, p.n - j)), sums + j);
}

// A Part adds products to rows of sums, which are C.
template <class C, class Part>
void sums_through_all(Communicator& workers, const ChainedProduct& p, const Part& part) {
  const std::int64_t step = part.step();
  through_all<C>(
      workers, p, step,
      [&](std::int64_t i, std::int64_t rows, C* sums) { part.add(i, rows, sums); },
      [&](std::int64_t i, std::int64_t rows, C* sums) {
        for (std::int64_t r = 0; r < rows; ++r) store(p, i + r, sums + r * step);
      });
}

void exact_through_all(Communicator& workers, const ChainedProduct& p) {
  const ExactPart part(workers, p);
  std::vector<float> row(static_cast<std::size_t>(p.n));
  through_all<ExactPart::Sum>(
      workers, p, p.n,
      [&](std::int64_t i, std::int64_t rows, ExactPart::Sum* sums) { part.add(i, rows, sums); },
      [&](std::int64_t i, std::int64_t rows, const ExactPart::Sum* sums) {
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t j = 0; j < p.n; ++j)
            row[static_cast<std::size_t>(j)] = part.rounded(i + r, j, sums[r * p.n + j]);
          store(p, i + r, row.data());
        }
      });
}

}  // namespace

void multiply(Communicator& all, const ChainedProduct& p) {
  Communicator& workers = all.host();
  if (!is_float(p.dtype) || !serves(p.math, p.dtype))
    refuse(
        "chained product: {} products of {} have no meaning: chain serves every float, exact f32, "
        "tensor_core f32, f16 and bf16",
        {name(p.math), p.dtype});
  if (p.m == 0 || p.n == 0) return;
  if (p.math == ProductMath::exact) return exact_through_all(workers, p);
  if (p.math == ProductMath::tensor_core)
    return sums_through_all<float>(workers, p, TensorCorePart(workers, p));
  if (p.dtype == Dtype::f64) return sums_through_all<double>(workers, p, ChainPart<double>(p));
  sums_through_all<float>(workers, p, ChainPart<float>(p));
}

}  // namespace planck::dist
