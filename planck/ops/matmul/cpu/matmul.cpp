// cpu:fma_chain. Two ways to cut a product; neither changes a bit.
//
//   packed  C in parts of 2016 × 2048, k in steps of 256. For each step all threads pack their
//           parts of A and B into the workspace, then tasks of 120 × 256 go through tiles in
//           registers. A is read in place where its rows lie close together and few columns
//           would use what was packed. Between steps sums wait in C, or in the workspace if C is
//           narrower than the compute type or its rows are not dense.
//   direct  small or thin products, no workspace: a task owns up to 72 × 128 or 8 × 1024 sums on
//           its stack, packs rows of A beside them and reads B in place if that is dense.
//
// A bias is added to sums while they are in registers, or, where C is narrower than these, to what
// they were rounded to; what follows it is done by each task where C lies.
#include <algorithm>
#include <cstdlib>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/gemm/cpu/epilogue.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/loops/parallel.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck {

using namespace gemm;

namespace {

constexpr std::int64_t kBlockRows = 2016, kBlockColumns = 2048;  // of C, packed
constexpr std::int64_t kTaskRows = 120, kTaskColumns = 256;
constexpr std::int64_t kNearRows = 2048, kFewColumns = 192;  // bytes apart; of C
constexpr std::int64_t kDirectRows = 72, kDirectSums = 9216, kDirectDepth = 128;
constexpr std::int64_t kMostBiases = 1024;       // rows or columns of a task
constexpr std::int64_t kTiny = 256;              // multiply-adds
constexpr std::int64_t kWorthThreads = 1 << 18;  // multiply-adds
constexpr std::int64_t kWorthTask = 1 << 16;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Whether packing pays: each packed number is used often.
bool worth_packing(std::int64_t m, std::int64_t n, std::int64_t k) {
  return std::min(m, n) > 64 &&
         static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) > 0x1p22;
}

// Words of the packed way's parts of the workspace.
struct PackedLayout {
  std::int64_t rows, columns, depth;
  std::int64_t a, b, sums;
  PackedLayout(std::int64_t m, std::int64_t n, std::int64_t k)
      : rows(round_up(std::min(m, kBlockRows), kTaskRows)),
        columns(round_up(std::min(n, kBlockColumns), kMostTileColumns)),
        depth(std::min<std::int64_t>(k, kMostDepth)),
        a(rows * depth),
        b(columns * depth),
        sums(rows * columns) {}
  std::size_t bytes(std::size_t word) const {
    return static_cast<std::size_t>(a + b + sums) * word;
  }
};

// A product over one pair of matrices; m rows are broadcast, n columns lie in vectors.
template <class C>
class Product {
 public:
  Product(const Geometry& g, std::int64_t batch)
      : g_(g),
        bias_(g.epilogue.bias),
        ops_(tile_ops<C>()),
        a_at_(g.batches.offset(0, batch)),
        b_at_(g.batches.offset(1, batch)),
        c_at_(g.batches.offset(2, batch)),
        residual_at_(g.batches.offset(3, batch)) {}

  void run_packed(const Stream& stream, C* workspace) {
    for (std::int64_t i = 0; i < g_.m; i += kBlockRows)
      for (std::int64_t j = 0; j < g_.n; j += kBlockColumns) packed_block(stream, workspace, i, j);
  }

  // Columns that a direct task owns, and tasks of one product.
  std::int64_t direct_columns(std::int64_t products) const {
    const std::int64_t rows = std::min(g_.m, kDirectRows);
    const std::int64_t most = std::clamp<std::int64_t>(kDirectSums / rows / 128 * 128, 128, 1024);
    const std::int64_t tasks = products * ceil_div(g_.m, kDirectRows);
    return std::min(most, std::max<std::int64_t>(128, round_up(g_.n * tasks / 16, 128)));
  }

  void run_direct(std::int64_t i, std::int64_t j, std::int64_t columns) const;

 private:
  Side rows_of_a(std::int64_t i, std::int64_t k) const {
    return {g_.a.data, g_.a.dtype, a_at_ + i * g_.a.row + k * g_.a.column, g_.a.row, g_.a.column};
  }
  Side columns_of_b(std::int64_t j, std::int64_t k) const {
    return {g_.b.data, g_.b.dtype, b_at_ + j * g_.b.column + k * g_.b.row, g_.b.column, g_.b.row};
  }
  void store(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns, const C* sums,
             std::int64_t step) const {
    for (std::int64_t r = 0; r < rows; ++r)
      if constexpr (std::is_same_v<C, std::int32_t>)
        store_sums(g_.c.dtype, g_.c.data, c_at_ + (i + r) * g_.c.row + j * g_.c.column, g_.c.column,
                   static_cast<int>(columns), sums + r * step);
      else
        store_sums(g_.c.dtype, g_.c.data, c_at_ + (i + r) * g_.c.row + j * g_.c.column, g_.c.column,
                   static_cast<int>(columns), sums + r * step,
                   g_.c.dtype == dtype_of<C> ? Added() : bias_,  // in registers, else here
                   (i + r) * bias_.row + j * bias_.column);
  }

  // What comes after the bias, once C holds that.
  void follow(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) const {
    const Added& residual = g_.epilogue.residual;
    for (std::int64_t r = i; r < i + rows && g_.epilogue.follows_bias(); ++r)
      follow_bias(g_.epilogue, g_.c.dtype, g_.c.data, c_at_ + r * g_.c.row + j * g_.c.column,
                  g_.c.column, static_cast<int>(columns),
                  residual_at_ + r * residual.row + j * residual.column);
  }

  // The bias of some rows and columns as tiles take it, where they add it: in C's own type.
  struct TileBias {
    alignas(64) C numbers[kMostBiases];
    const C *of_columns = nullptr, *of_rows = nullptr;
    void put_into(TileBlock<C>& block, std::int64_t column) const {
      if (!block.last) return;
      block.column_bias = of_columns == nullptr ? nullptr : of_columns + column;
      block.row_bias = of_rows;
    }
  };
  void load(TileBias& to, std::int64_t i, std::int64_t j, std::int64_t rows,
            std::int64_t columns) const {
    if constexpr (!std::is_same_v<C, std::int32_t>) {
      if (bias_.data == nullptr || g_.c.dtype != dtype_of<C>) return;
      const bool down = bias_.row != 0;
      const std::int64_t n = down ? rows : columns;
      load_portion(portion_ops(), g_.c.dtype, bias_.data, down ? i * bias_.row : j * bias_.column,
                   down ? bias_.row : bias_.column, static_cast<int>(n), to.numbers);
      std::fill_n(to.numbers + n, round_up(n, kMostTileColumns) - n, C{0});
      (down ? to.of_rows : to.of_columns) = to.numbers;
    }
  }

  // Rows of A that lie far apart fall on few sets of the cache.
  bool reads_a() const {
    return !std::is_same_v<C, std::int32_t> && g_.a.dtype == dtype_of<C> && g_.a.column == 1 &&
           g_.a.row > 0 && g_.a.row * std::int64_t{sizeof(C)} <= kNearRows && g_.n <= kFewColumns;
  }
  void packed_block(const Stream& stream, C* workspace, std::int64_t i0, std::int64_t j0);
  struct Step {  // what the tasks of one step of k have in common
    std::int64_t i0, j0, k0, rows, columns, depth;
    const C *a, *b;
    C* sums;  // of the part of C
    std::int64_t sums_step;
    bool in_place, continues, last;
  };
  void packed_task(const Step& s, std::int64_t i, std::int64_t j) const;

  const Geometry& g_;
  const Added& bias_;
  const TileOps<C>& ops_;
  std::int64_t a_at_, b_at_, c_at_, residual_at_;
};

template <class C>
void Product<C>::packed_block(const Stream& stream, C* workspace, std::int64_t i0,
                              std::int64_t j0) {
  const PackedLayout layout(g_.m, g_.n, g_.k);
  C *a = workspace, *b = a + layout.a, *waiting = b + layout.b;
  const std::int64_t rows = std::min(kBlockRows, g_.m - i0);
  const std::int64_t columns = std::min(kBlockColumns, g_.n - j0);
  const std::int64_t down = ceil_div(rows, kTaskRows), across = ceil_div(columns, kTaskColumns);
  const int width = ops_.vectors * ops_.lanes;
  const bool in_place = g_.c.dtype == dtype_of<C> && g_.c.column == 1;
  const std::int64_t packed = reads_a() ? 0 : down;  // tasks that pack A
  C* c = static_cast<C*>(g_.c.data) + (c_at_ + i0 * g_.c.row + j0 * g_.c.column);
  for (std::int64_t k0 = 0; k0 < g_.k; k0 += kMostDepth) {
    const std::int64_t k = std::min<std::int64_t>(kMostDepth, g_.k - k0);
    const std::int64_t depth = packed_depth<C>(k);
    parallel_for(stream, packed + across, [&](std::int64_t t) {
      if (t < packed) {
        const std::int64_t i = t * kTaskRows;
        pack(rows_of_a(i0 + i, k0), std::min(kTaskRows, rows - i), k, ops_.rows, a + i * depth);
      } else {
        const std::int64_t j = (t - packed) * kTaskColumns;
        pack(columns_of_b(j0 + j, k0), std::min(kTaskColumns, columns - j), k, width,
             b + j * depth);
      }
    });
    const Step step{i0,
                    j0,
                    k0,
                    rows,
                    columns,
                    depth,
                    a,
                    b,
                    in_place ? c : waiting,
                    in_place ? g_.c.row : layout.columns,
                    in_place,
                    k0 > 0,
                    k0 + k == g_.k};
    parallel_for(stream, down * across, [&](std::int64_t t) {
      packed_task(step, t / across * kTaskRows, t % across * kTaskColumns);
    });
  }
}

template <class C>
void Product<C>::packed_task(const Step& s, std::int64_t i, std::int64_t j) const {
  const int width = ops_.vectors * ops_.lanes;
  const std::int64_t rows = std::min(kTaskRows, s.rows - i);
  const std::int64_t end = std::min(j + kTaskColumns, s.columns);
  C* const sums = s.sums + i * s.sums_step + j;
  TileBias bias;
  if (s.last) load(bias, s.i0 + i, s.j0 + j, rows, end - j);
  for (std::int64_t at = j; at < end; at += width) {
    const int columns = static_cast<int>(std::min<std::int64_t>(width, end - at));
    TileBlock<C> block{s.a + i * s.depth, rows,          s.b + at * s.depth, width,       columns,
                       s.depth,           sums + at - j, s.sums_step,        s.continues, s.last};
    bias.put_into(block, at - j);
    if (reads_a()) {
      block.a = static_cast<const C*>(g_.a.data) + rows_of_a(s.i0 + i, s.k0).offset;
      block.a_row = g_.a.row;
    }
    // C has no room behind its last column: its sums go through a tile that has.
    if (s.in_place && columns % ops_.lanes != 0) {
      alignas(64) C tile[kTaskRows * kMostTileColumns];
      for (std::int64_t r = 0; r < rows && s.continues; ++r)
        std::copy_n(block.sums + r * s.sums_step, columns, tile + r * width);
      const TileBlock<C> whole = block;
      block.sums = tile;
      block.sums_step = width;
      ops_.multiply(block);
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(tile + r * width, columns, whole.sums + r * s.sums_step);
    } else {
      ops_.multiply(block);
    }
  }
  if (s.last && !s.in_place) store(s.i0 + i, s.j0 + j, rows, end - j, sums, s.sums_step);
  if (s.last) follow(s.i0 + i, s.j0 + j, rows, end - j);
}

template <class C>
void Product<C>::run_direct(std::int64_t i, std::int64_t j, std::int64_t columns) const {
  const std::int64_t rows = std::min(kDirectRows, g_.m - i);
  columns = std::min(columns, g_.n - j);
  const int width = (rows <= ops_.thin_rows ? ops_.thin_vectors : ops_.vectors) * ops_.lanes;
  alignas(64) C stack[kDirectSums];
  const bool into_c = g_.c.dtype == dtype_of<C> && g_.c.column == 1 && columns % ops_.lanes == 0;
  C* const sums = into_c ? static_cast<C*>(g_.c.data) + (c_at_ + i * g_.c.row + j) : stack;
  const std::int64_t step = into_c ? g_.c.row : round_up(columns, ops_.lanes);
  alignas(64) C a[round_up(kDirectRows, kMostTileRows) * kDirectDepth];
  alignas(64) C b[kMostTileColumns * kDirectDepth];
  // Rows of B far apart fall on few sets of the cache: more than one use is worth a copy.
  const bool near = rows <= ops_.rows || std::abs(g_.b.row) * std::int64_t{sizeof(C)} <= 2048;
  const bool in_place = g_.b.dtype == dtype_of<C> && g_.b.column == 1 && near;
  // Few rows use B once: short steps of k walk along its rows instead of down its columns.
  const std::int64_t most = rows <= 8 && in_place ? 32 : kDirectDepth;
  TileBias bias;
  load(bias, i, j, rows, columns);
  std::int64_t k0 = 0;
  do {
    const std::int64_t k = std::min(most, g_.k - k0), depth = packed_depth<C>(k);
    pack(rows_of_a(i, k0), rows, k, ops_.rows, a);
    for (std::int64_t at = 0; at < columns; at += width) {
      const int n = static_cast<int>(std::min<std::int64_t>(width, columns - at));
      TileBlock<C> block{a,         rows, b,      round_up(n, ops_.lanes), n, depth,
                         sums + at, step, k0 > 0, k0 + k == g_.k};
      bias.put_into(block, at);
      if (in_place && n % ops_.lanes == 0) {
        block.b = static_cast<const C*>(g_.b.data) + columns_of_b(j + at, k0).offset;
        block.b_step = g_.b.row;
      } else {
        pack(columns_of_b(j + at, k0), n, k, static_cast<int>(block.b_step), b);
      }
      ops_.multiply(block);
    }
    k0 += k;
  } while (k0 < g_.k);
  if (!into_c) store(i, j, rows, columns, sums, step);
  follow(i, j, rows, columns);
}

template <class C>
void run_direct(const Stream& stream, const Geometry& g) {
  const std::int64_t columns = Product<C>(g, 0).direct_columns(g.batches.count);
  const std::int64_t down = ceil_div(g.m, kDirectRows), across = ceil_div(g.n, columns);
  const std::int64_t parts = g.batches.count * down * across;
  const auto part = [&](std::int64_t t) {
    const std::int64_t i = t / across % down, j = t % across;
    Product<C>(g, t / across / down).run_direct(i * kDirectRows, j * columns, columns);
  };
  const double each = static_cast<double>(std::min(g.m, kDirectRows)) *
                      static_cast<double>(std::min(g.n, columns)) * static_cast<double>(g.k + 8);
  if (each * static_cast<double>(parts) < static_cast<double>(kWorthThreads)) {
    for (std::int64_t t = 0; t < parts; ++t) part(t);
    return;
  }
  const auto together = static_cast<std::int64_t>(static_cast<double>(kWorthTask) / each) + 1;
  parallel_for(stream, ceil_div(parts, together), [&](std::int64_t task) {
    const std::int64_t end = std::min(parts, (task + 1) * together);
    for (std::int64_t t = task * together; t < end; ++t) part(t);
  });
}

template <class C>
void multiply(const Stream& stream, Workspace workspace, Geometry g) {
  const Epilogue& e = g.epilogue;
  if constexpr (!std::is_same_v<C, std::int32_t>)
    if (g.batches.count == 1 && g.m * g.n <= 64 && g.m * g.n * g.k <= kTiny &&
        g.a.dtype == dtype_of<C> && !e.follows_bias())
      return tile_ops<C>().multiply_tiny(
          {g.m, g.n, g.k, static_cast<const C*>(g.a.data), static_cast<const C*>(g.b.data),
           static_cast<C*>(g.c.data), g.a.row, g.a.column, g.b.row, g.b.column, g.c.row, g.c.column,
           static_cast<const C*>(e.bias.data), e.bias.row, e.bias.column});
  const bool packed = worth_packing(g.m, g.n, g.k);
  // The vectors' axis is the one along which C is dense, or the long one where the other is short.
  const bool columns = g.c.row == 1 && g.c.column != 1;
  if (packed ? columns : g.n < 16 ? g.m > g.n : columns && g.m >= 16) g = g.transposed();
  if (!packed) return run_direct<C>(stream, g);
  for (std::int64_t t = 0; t < g.batches.count; ++t)
    Product<C>(g, t).run_packed(stream, static_cast<C*>(workspace.data));
}

}  // namespace

// Strides decide at run whether batches are rows of one product: the workspace is enough for both.
std::size_t matmul_cpu_workspace(const MatmulProblem& p) {
  std::size_t bytes = 0;
  if (p.n == 0 || p.k == 0) return 0;
  for (const std::int64_t batches : {std::int64_t{1}, numel(p.batch)})
    if (worth_packing(p.m * batches, p.n, p.k)) {
      const std::size_t word = p.element_dtype == Dtype::f64 ? 8 : 4;
      bytes = std::max({bytes, PackedLayout(p.m * batches, p.n, p.k).bytes(word),
                        PackedLayout(p.n, p.m * batches, p.k).bytes(word)});
    }
  return bytes;
}

Result<void> matmul_cpu(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                        const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  const Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  if (p.element_dtype == Dtype::s8)
    multiply<std::int32_t>(stream, workspace, g);
  else if (p.element_dtype == Dtype::f64)
    multiply<double>(stream, workspace, g);
  else
    multiply<float>(stream, workspace, g);
  return {};
}

}  // namespace planck
