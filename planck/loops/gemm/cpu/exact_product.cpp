// Exact f32 products by AMX, VNNI and f64. The largest magnitude of every
// row of A and column of B is found first; then parts of both become integers, in the form that
// tiles multiply, and sums of k in steps are added in int64. One cut for all tiles; no bit depends
// on it. One thread of a Xeon (Sapphire Rapids), 2048 cubed: AMX 175 GFLOP/s, VNNI 65, f64 52; on
// AVX2 31; the chain has 126, on AVX2 66.
#include "planck/math/products/exact_product.h"

#include "planck/loops/gemm/cpu/blocked.h"
#include "planck/loops/gemm/cpu/exact_rows.h"
#include "planck/loops/gemm/cpu/exact_tiles.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/plan/this_cpu.h"

namespace planck::gemm {

namespace {

using math::exact::kNotFinite;

// Tasks are whole panels of 16, 12, 6 or 4 rows.
template <class Tiles>
constexpr Cut kCut = {22 * kExactRows, 16 * kExactColumns, Tiles::kStep, kExactRows, kExactColumns};

// Bytes of one product's parts of the workspace.
template <class Tiles>
struct Layout {
  std::int64_t exponents, a, b, waiting, columns;
  bool wide;  // sums past 64 bits wait in two words
  Layout(std::int64_t m, std::int64_t n, std::int64_t k) {
    const Cut& cut = kCut<Tiles>;
    const Tiles tiles;
    const std::int64_t depth = cut.depth(k), rows = cut.rows(m);
    columns = cut.columns(n);
    wide = k > math::exact::kMostIn64Bits;
    exponents = round_up((m + n) * 4, 64);
    a = rows / tiles.rows() * tiles.panel_bytes(tiles.rows(), depth);
    b = columns / tiles.columns() * tiles.panel_bytes(tiles.columns(), depth);
    waiting = k > cut.step ? rows * columns * 8 : 0;
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(exponents + a + b + waiting * (wide ? 2 : 1));
  }
};
template <class Tiles>
class Engine {
 public:
  Engine(const Product& p, std::byte* workspace)
      : p_(p),
        layout_(p.m, p.n, p.k),
        row_exponent_(p.row_exponents),
        column_exponent_(p.column_exponents),
        found_(reinterpret_cast<std::int32_t*>(workspace)),
        a_(workspace + layout_.exponents),
        b_(a_ + layout_.a),
        low_(reinterpret_cast<std::int64_t*>(b_ + layout_.b)),
        high_(low_ + layout_.waiting / 8) {}

  // Where they are not given.
  void find_exponents(const Stream& stream) {
    constexpr std::int64_t kTask = 128;
    if (row_exponent_ != nullptr) return;
    const std::int64_t down = ceil_div(p_.m, kTask), across = ceil_div(p_.n, kTask);
    parallel_for(stream, down + across, [&](std::int64_t t) {
      const bool rows = t < down;
      const std::int64_t first = (rows ? t : t - down) * kTask;
      const std::int64_t count = std::min(kTask, (rows ? p_.m : p_.n) - first);
      std::uint32_t largest[kTask];
      ops_.largest(part_of(rows ? p_.a : p_.b, first, 0), count, p_.k, largest);
      std::int32_t* const out = found_ + (rows ? 0 : p_.m) + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = math::exact::exponent_of(largest[i]);
    });
    row_exponent_ = found_, column_exponent_ = found_ + p_.m;
  }

  void pack_a(const Step& s, std::int64_t i, std::int64_t rows) const {
    tiles_.pack_a(part_of(p_.a, s.i0 + i, s.k0), rows, s.k, row_exponent_ + s.i0 + i,
                  a_panel(s, i));
  }
  void pack_b(const Step& s, std::int64_t j, std::int64_t columns) const {
    tiles_.pack_b(part_of(p_.b, s.j0 + j, s.k0), columns, s.k, column_exponent_ + s.j0 + j,
                  b_panel(s, j));
  }
  void multiply(const Step& s, std::int64_t i, std::int64_t j, std::int64_t rows,
                std::int64_t columns) const {
    alignas(64) std::int64_t sums[kExactRows * Tiles::kMostColumns];
    alignas(64) float results[kExactRows * kExactColumns];
    const typename Tiles::Registers registers;
    const std::int64_t width = tiles_.columns();
    for (std::int64_t at = 0; at < columns; at += width) {
      tiles_.multiply(registers, a_panel(s, i), rows, b_panel(s, j + at), s.k, sums);
      // Those of a task's panel wait together.
      const std::int64_t place = i * layout_.columns + (j + at) * kExactRows;
      if (!s.first || !s.last) wait(s, place, rows * width, sums);
      if (s.last)
        finish(s, i, j + at, rows, std::min(width, columns - at), place, sums, results + at);
    }
    if (!s.last) return;
    for (std::int64_t r = 0; r < rows; ++r)
      p_.store(s.i0 + i + r, s.j0 + j, static_cast<int>(columns), results + r * kExactColumns);
  }

 private:
  std::byte* a_panel(const Step& s, std::int64_t i) const {
    return a_ + i / tiles_.rows() * tiles_.panel_bytes(tiles_.rows(), s.k);
  }
  std::byte* b_panel(const Step& s, std::int64_t j) const {
    return b_ + j / tiles_.columns() * tiles_.panel_bytes(tiles_.columns(), s.k);
  }

  // Adds what waits to n sums; unless they are the last, they wait in turn.
  void wait(const Step& s, std::int64_t place, std::int64_t n, std::int64_t* sums) const {
    std::int64_t *const low = low_ + place, *const high = high_ + place;
    if (layout_.wide) {
      for (std::int64_t c = 0; c < n; ++c) {
        math::exact::Wide sum;
        if (!s.first) sum = {high[c], static_cast<std::uint64_t>(low[c])};
        sum.add(sums[c]);
        high[c] = sum.high;
        low[c] = static_cast<std::int64_t>(sum.low);
      }
      return;
    }
    if (!s.first)
      for (std::int64_t c = 0; c < n; ++c) sums[c] += low[c];
    if (!s.last) std::copy_n(sums, n, low);
  }

  // Sums of a panel to f32; n of its columns count.
  void finish(const Step& s, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t n,
              std::int64_t place, const std::int64_t* sums, float* results) const {
    const std::int64_t width = tiles_.columns();
    const std::int32_t* const exponents = column_exponent_ + s.j0 + j;
    const bool odd = std::find(exponents, exponents + n, kNotFinite) != exponents + n;
    for (std::int64_t r = 0; r < rows; ++r, results += kExactColumns, place += width) {
      const int row = row_exponent_[s.i0 + i + r];
      if (layout_.wide)
        for (std::int64_t c = 0; c < n; ++c)
          results[c] = math::exact::round_exact(
              math::exact::Wide{high_[place + c], static_cast<std::uint64_t>(low_[place + c])},
              math::exact::exponent_of_sum(row, exponents[c]));
      else
        ops_.finish(sums + r * width, static_cast<int>(n), row, exponents, results);
      if (odd || row == kNotFinite)
        for (std::int64_t c = 0; c < n; ++c)
          if (row == kNotFinite || exponents[c] == kNotFinite)
            results[c] = not_finite(s.i0 + i + r, s.j0 + j + c);
    }
  }
  float not_finite(std::int64_t i, std::int64_t j) const {
    const Side a = part_of(p_.a, i, 0), b = part_of(p_.b, j, 0);
    return math::exact::not_finite(static_cast<const float*>(a.data) + a.offset, a.depth,
                                   static_cast<const float*>(b.data) + b.offset, b.depth, p_.k);
  }

  const Product& p_;
  const ExactOps& ops_ = exact_ops();
  Tiles tiles_;
  Layout<Tiles> layout_;
  const std::int32_t *row_exponent_, *column_exponent_;
  std::int32_t* found_;
  std::byte *a_, *b_;
  std::int64_t *low_, *high_;
};

// f(Tiles) of those that multiply.
template <class F>
decltype(auto) with_tiles(ExactBy by, const F& f) {
  if (by == ExactBy::amx) return f(DigitTiles());
  return by == ExactBy::vnni ? f(ShortTiles()) : f(FloatTiles());
}

}  // namespace

std::string exact_refusal(ExactBy by) {
  if (by == ExactBy::amx && !amx_available()) return needs_of_cpu("AMX for s8");
  if (by == ExactBy::vnni && !vnni_available()) return needs_of_cpu("AVX-512 with VNNI");
  return "";
}

int exact_columns(ExactBy by) {
  return with_tiles(by, [](const auto& tiles) { return tiles.columns(); });
}

std::size_t exact_bytes(ExactBy by, std::int64_t m, std::int64_t n, std::int64_t k) {
  return with_tiles(by, [&]<class Tiles>(const Tiles&) { return Layout<Tiles>(m, n, k).bytes(); });
}

void multiply_exact(ExactBy by, const Stream& stream, const Product& p, std::byte* workspace) {
  with_tiles(by, [&]<class Tiles>(const Tiles&) {
    Engine<Tiles> engine(p, workspace);
    engine.find_exponents(stream);
    run_blocked(stream, kCut<Tiles>, p.m, p.n, p.k, engine);
  });
}

}  // namespace planck::gemm
