// What a worker adds to the sums of a chained product (chain.h), for each meaning of products.
// add(first, rows, sums) takes rows of C from `first` on; sums are [rows, step()].
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "planck/dist/split/chain.h"
#include "planck/loops/gemm/cpu/exact_tiles.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tensor_core_tile.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/math/products/exact_product.h"
#include "planck/math/products/tensor_core.h"

namespace planck::dist {

namespace chain_detail {
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }
inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
}  // namespace chain_detail

// Fused multiply-adds in C, one after the other.
template <class C>
class ChainPart {
 public:
  explicit ChainPart(const ChainedProduct& p) : p_(p) {}
  std::int64_t step() const { return chain_detail::round_up(p_.n, ops_.lanes); }

  void add(std::int64_t first, std::int64_t rows, C* sums) const {
    using namespace chain_detail;
    constexpr std::int64_t kDepth = gemm::kMostDepth;
    const int width = ops_.vectors * ops_.lanes;
    std::vector<C> a(size(round_up(rows, ops_.rows) * kDepth)), b(size(width * kDepth));
    for (std::int64_t k0 = 0; k0 < p_.k; k0 += kDepth) {
      const std::int64_t k = std::min(kDepth, p_.k - k0);
      gemm::pack({p_.a, p_.dtype, first * p_.k + k0, p_.k, 1}, rows, k, ops_.rows, a.data());
      for (std::int64_t j = 0; j < p_.n; j += width) {
        const int columns = static_cast<int>(std::min<std::int64_t>(width, p_.n - j));
        const int wide = static_cast<int>(round_up(columns, ops_.lanes));
        gemm::pack({p_.b, p_.dtype, k0 * p_.n + j, 1, p_.n}, columns, k, wide, b.data());
        ops_.multiply({a.data(), rows, b.data(), wide, columns, k, sums + j, step(), true, false});
      }
    }
  }

 private:
  const ChainedProduct& p_;
  const gemm::TileOps<C>& ops_ = gemm::tile_ops<C>();
};

// Blocks of k, of which none is cut in two: the last k that fill none are the next worker's first.
class TensorCorePart {
 public:
  TensorCorePart(Communicator& workers, const ChainedProduct& p) : p_(p) {
    using chain_detail::size;
    constexpr std::int64_t kFew = math::tensor_core::Tf32::kBlock,
                           kMany = math::tensor_core::Bf16::kBlock;
    const int rank = workers.rank();
    std::int64_t came = 0;
    if (rank > 0) workers.receive(rank - 1, &came, sizeof came);
    k_ = came + p.k;
    a_.resize(size(p.m * k_)), b_.resize(size(k_ * p.n));
    if (came > 0) {  // [m, came], then [came, n]
      std::vector<float> first(size(p.m * came));
      workers.receive(rank - 1, first.data(), first.size() * sizeof(float));
      for (std::int64_t i = 0; i < p.m; ++i)
        std::copy_n(first.data() + i * came, came, a_.data() + i * k_);
      workers.receive(rank - 1, b_.data(), size(came * p.n) * sizeof(float));
    }
    for (std::int64_t i = 0; i < p.m; ++i)
      load({p.a, p.dtype, 0, p.k, 1}, i, p.k, a_.data() + i * k_ + came);
    for (std::int64_t k = 0; k < p.k; ++k)
      load({p.b, p.dtype, 0, p.n, 1}, k, p.n, b_.data() + (came + k) * p.n);
    used_ = k_;
    if (rank + 1 == workers.size()) return;
    const std::int64_t goes = k_ % (p.dtype == Dtype::f32 ? kFew : kMany);
    used_ -= goes;
    workers.send(rank + 1, &goes, sizeof goes);
    if (goes == 0) return;
    std::vector<float> rest;
    for (std::int64_t i = 0; i < p.m; ++i)
      rest.insert(rest.end(), a_.data() + i * k_ + used_, a_.data() + (i + 1) * k_);
    workers.send(rank + 1, rest.data(), rest.size() * sizeof(float));
    workers.send(rank + 1, b_.data() + used_ * p.n, size(goes * p.n) * sizeof(float));
  }
  std::int64_t step() const { return chain_detail::round_up(p_.n, ops_.columns); }

  void add(std::int64_t first, std::int64_t rows, float* sums) const {
    using chain_detail::size;
    constexpr std::int64_t kDepth = gemm::kMostDepth;  // whole blocks
    const int width = ops_.columns;
    std::vector<float> a(size(rows * kDepth)), b(size(width * kDepth)), panel(size(rows * width));
    std::vector<std::int32_t> a_exponents(a.size());
    std::vector<std::int16_t> b_exponents(b.size());
    for (std::int64_t k0 = 0; k0 < used_; k0 += kDepth) {
      const std::int64_t k = std::min(kDepth, used_ - k0);
      gemm::pack({a_.data(), Dtype::f32, first * k_ + k0, k_, 1}, rows, k, 1, a.data());
      ops_.prepare_a(p_.dtype, a.data(), rows * k, a_exponents.data());
      for (std::int64_t j = 0; j < p_.n; j += width) {
        const std::int64_t columns = std::min<std::int64_t>(width, p_.n - j);
        gemm::pack({b_.data(), Dtype::f32, k0 * p_.n + j, 1, p_.n}, columns, k, width, b.data());
        ops_.prepare_b(p_.dtype, b.data(), width * k, b_exponents.data());
        for (std::int64_t r = 0; r < rows; ++r)
          std::copy_n(sums + r * step() + j, width, panel.data() + r * width);
        ops_.multiply({p_.dtype, a.data(), a_exponents.data(), rows, b.data(), b_exponents.data(),
                       k, panel.data(), true, false});
        for (std::int64_t r = 0; r < rows; ++r)
          std::copy_n(panel.data() + r * width, width, sums + r * step() + j);
      }
    }
  }

 private:
  static void load(const gemm::Side& side, std::int64_t row, std::int64_t n, float* out) {
    for (std::int64_t i = 0; i < n; i += 1024)
      gemm::load_row(side, row, i, static_cast<int>(std::min<std::int64_t>(1024, n - i)), out + i);
  }

  const ChainedProduct& p_;
  const gemm::TensorCoreOps& ops_ = gemm::tensor_core_ops();
  std::int64_t k_ = 0, used_ = 0;  // that it has, and that it adds
  std::vector<float> a_, b_;       // [m, k], [k, n]
};

// Integers of which no order changes the sum.
class ExactPart {
 public:
  // Of an element whose row or column is not finite, `low` says what its products are instead.
  using Sum = math::exact::Wide;

  ExactPart(Communicator& workers, const ChainedProduct& p) : p_(p) {
    using chain_detail::size;
    std::vector<std::uint32_t> mine(size(p.m + p.n));
    gemm::exact_ops().largest({p.a, Dtype::f32, 0, p.k, 1}, p.m, p.k, mine.data());
    gemm::exact_ops().largest({p.b, Dtype::f32, 0, 1, p.n}, p.n, p.k, mine.data() + p.m);
    std::vector<std::uint32_t> all(mine.size() * size(workers.size()));
    workers.all_gather(mine.data(), mine.size() * sizeof(std::uint32_t), all.data());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::uint32_t largest = 0;
      for (std::size_t at = i; at < all.size(); at += mine.size())
        largest = std::max(largest, all[at]);
      exponents_.push_back(math::exact::exponent_of(largest));
    }
  }

  // sums: [rows, n]
  void add(std::int64_t first, std::int64_t rows, Sum* sums) const {
    constexpr std::int64_t kStep = gemm::FloatTiles::kStep, kColumns = gemm::kExactColumns;
    constexpr std::int64_t kWidth = gemm::FloatTiles::kMostColumns;
    const gemm::FloatTiles tiles;
    const auto room = [&](std::int64_t width) {
      return std::vector<double>(chain_detail::size(width * std::min(kStep, p_.k)));
    };
    std::vector<double> a = room(chain_detail::round_up(rows, tiles.rows())),
                        b = room(kColumns + gemm::kMostTileColumns);
    auto* const left = reinterpret_cast<std::byte*>(a.data());
    auto* const right = reinterpret_cast<std::byte*>(b.data());
    std::vector<std::int64_t> panel(chain_detail::size(gemm::kExactRows * kWidth));
    for (std::int64_t k0 = 0; k0 < p_.k; k0 += kStep) {
      const std::int64_t k = std::min(kStep, p_.k - k0);
      tiles.pack_a({p_.a, Dtype::f32, first * p_.k + k0, p_.k, 1}, rows, k, row(first), left);
      for (std::int64_t j0 = 0; j0 < p_.n; j0 += kColumns) {
        const std::int64_t columns = std::min(kColumns, p_.n - j0);
        tiles.pack_b({p_.b, Dtype::f32, k0 * p_.n + j0, 1, p_.n}, columns, k, column(j0), right);
        for (std::int64_t j = 0; j < columns; j += kWidth) {
          tiles.multiply({}, left, rows, right + tiles.panel_bytes(j, k), k, panel.data());
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < std::min(kWidth, columns - j); ++c)
              sums[r * p_.n + j0 + j + c].add(panel[chain_detail::size(r * kWidth + c)]);
        }
      }
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < p_.n; ++j)
        if (is_odd(first + r, j)) sums[r * p_.n + j].low |= odd(first + r, j);
  }

  float rounded(std::int64_t i, std::int64_t j, const Sum& sum) const {
    if (!is_odd(i, j))
      return math::exact::round_exact(sum, math::exact::exponent_of_sum(*row(i), *column(j)));
    const float infinity = math::infinity_of(0.0f);
    if ((sum.low & kNan) != 0 || sum.low == (kPositive | kNegative)) return math::nan_of(0.0f);
    return sum.low == kPositive ? infinity : -infinity;
  }

 private:
  static constexpr std::uint64_t kNan = 1, kPositive = 2, kNegative = 4;
  const std::int32_t* row(std::int64_t i) const { return exponents_.data() + i; }
  const std::int32_t* column(std::int64_t j) const { return exponents_.data() + p_.m + j; }
  bool is_odd(std::int64_t i, std::int64_t j) const {
    return *row(i) == math::exact::kNotFinite || *column(j) == math::exact::kNotFinite;
  }
  // This worker's products that are not finite.
  std::uint64_t odd(std::int64_t i, std::int64_t j) const {
    const auto* const a = static_cast<const float*>(p_.a) + i * p_.k;
    const auto* const b = static_cast<const float*>(p_.b) + j;
    std::uint64_t found = 0;
    for (std::int64_t k = 0; k < p_.k; ++k) {
      const float x = a[k], y = b[k * p_.n], product = x * y;
      if (!std::isfinite(x) || !std::isfinite(y))
        found |= std::isnan(product) ? kNan : product > 0 ? kPositive : kNegative;
    }
    return found;
  }

  const ChainedProduct& p_;
  std::vector<std::int32_t> exponents_;  // of rows, then of columns
};

}  // namespace planck::dist
