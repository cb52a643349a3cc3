// cpu:amx, cpu:vnni: products of s8. The sums are exact, whatever the order, so both give the bits
// of cpu:fma_chain. One thread of a Xeon (Sapphire Rapids), 2048 cubed: AMX 1,135 GOP/s, VNNI 513;
// cpu:fma_chain 149.
#include "planck/loops/gemm/cpu/amx_tile.h"
#include "planck/loops/gemm/cpu/blocked.h"
#include "planck/loops/gemm/cpu/byte_panels.h"
#include "planck/loops/gemm/cpu/vnni_tile.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/host/geometry.h"
#include "planck/plan/this_cpu.h"

namespace planck {

using namespace gemm;

namespace {

constexpr std::int64_t kTaskRows = 96, kTaskColumns = 128;
constexpr Cut kCut = {22 * kTaskRows, 16 * kTaskColumns, 4096, kTaskRows, kTaskColumns};

// Words of four bytes. A is stored plus 128, without a sign, as the instruction wants it: sums
// begin at -128 Σ b, which lies before each panel of B.
struct VnniBytes {
  struct Registers {};
  static constexpr int kRows = kVnniRows, kColumns = kVnniColumns;
  static std::int64_t a_bytes(std::int64_t k) { return kRows * words(k) * 4; }
  static std::int64_t b_bytes(std::int64_t k) { return kColumns * (words(k) + 1) * 4; }
  static void pack_a(const Side& side, std::int64_t count, std::int64_t k, std::byte* out) {
    byte_panel_ops().to_words(side, count, k, words(k), kRows, 128,
                              reinterpret_cast<std::int32_t*>(out));
  }
  static void pack_b(const Side& side, std::int64_t count, std::int64_t k, std::byte* out) {
    for (std::int64_t j = 0; j < count; j += kColumns, out += b_bytes(k)) {
      auto* const panel = reinterpret_cast<std::int32_t*>(out);
      byte_panel_ops().to_words(part_of(side, j, 0), std::min<std::int64_t>(kColumns, count - j), k,
                                words(k), kColumns, 0, panel + kColumns);
      byte_panel_ops().offsets(panel + kColumns, words(k), panel);
    }
  }
  static void multiply(const Registers&, const std::byte* a, std::int64_t rows, const std::byte* b,
                       std::int64_t k, std::int32_t* sums) {
    const auto* const panel = reinterpret_cast<const std::int32_t*>(b);
    alignas(64) std::int32_t tile[kRows * kColumns];
    for (std::int64_t r = 0; r < rows; r += kRows, a += a_bytes(k)) {
      const int n = static_cast<int>(std::min<std::int64_t>(kRows, rows - r));
      vnni_bytes(
          {reinterpret_cast<const std::int32_t*>(a), panel + kColumns, words(k), n, panel, tile});
      for (int t = 0; t < n; ++t)
        std::copy_n(tile + t * kColumns, kColumns, sums + (r + t) * kTaskColumns);
    }
  }

 private:
  static std::int64_t words(std::int64_t k) { return ceil_div(k, 4); }
};

// Blocks of 64 of k; two panels of rows and of columns at once.
struct AmxBytes {
  using Registers = AmxTiles;
  static constexpr int kRows = 2 * kAmxRows, kColumns = 2 * kAmxColumns;
  static std::int64_t a_bytes(std::int64_t k) { return 2 * panel(k); }
  static std::int64_t b_bytes(std::int64_t k) { return 2 * panel(k); }
  static void pack_a(const Side& side, std::int64_t count, std::int64_t k, std::byte* out) {
    byte_panel_ops().to_blocks(side, count, k, reinterpret_cast<std::int8_t*>(out));
  }
  static void pack_b(const Side& side, std::int64_t count, std::int64_t k, std::byte* out) {
    byte_panel_ops().to_words(side, count, k, panel(k) / 64, kAmxColumns, 0,
                              reinterpret_cast<std::int32_t*>(out));
  }
  static void multiply(const Registers& registers, const std::byte* a, std::int64_t rows,
                       const std::byte* b, std::int64_t k, std::int32_t* sums) {
    const auto* const columns = reinterpret_cast<const std::int8_t*>(b);
    for (std::int64_t r = 0; r < rows; r += kRows, a += a_bytes(k)) {
      const auto* const upper = reinterpret_cast<const std::int8_t*>(a);
      registers.multiply(upper, rows - r > kAmxRows ? upper + panel(k) : nullptr, columns,
                         columns + panel(k), ceil_div(k, kAmxDepth), sums + r * kTaskColumns,
                         kTaskColumns);
    }
  }

 private:
  static std::int64_t panel(std::int64_t k) { return ceil_div(k, kAmxDepth) * kAmxBlock; }
};

template <class Tiles>
struct Layout {
  std::int64_t a, b, waiting, columns;
  Layout(std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::int64_t depth = kCut.depth(k);
    columns = kCut.columns(n);
    a = round_up(kCut.rows(m) / Tiles::kRows * Tiles::a_bytes(depth), 64);
    b = round_up(columns / Tiles::kColumns * Tiles::b_bytes(depth), 64);
    waiting = k > kCut.step ? kCut.rows(m) * columns * 4 : 0;
  }
};
template <class Tiles>
std::size_t bytes_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Layout<Tiles> layout(m, n, k);
  return static_cast<std::size_t>(layout.a + layout.b + layout.waiting);
}

template <class Tiles>
class Engine {
 public:
  Engine(const Geometry& g, std::int64_t batch, std::byte* workspace)
      : g_(g),
        layout_(g.m, g.n, g.k),
        a_side_(rows_of_a(g, batch)),
        b_side_(columns_of_b(g, batch)),
        c_at_(g.batches.offset(2, batch)),
        a_(workspace),
        b_(a_ + layout_.a),
        waiting_(reinterpret_cast<std::int32_t*>(b_ + layout_.b)) {}

  void pack_a(const Step& s, std::int64_t i, std::int64_t rows) const {
    Tiles::pack_a(part_of(a_side_, s.i0 + i, s.k0), rows, s.k, a_panel(s, i));
  }
  void pack_b(const Step& s, std::int64_t j, std::int64_t columns) const {
    Tiles::pack_b(part_of(b_side_, s.j0 + j, s.k0), columns, s.k, b_panel(s, j));
  }
  void multiply(const Step& s, std::int64_t i, std::int64_t j, std::int64_t rows,
                std::int64_t columns) const {
    alignas(64) std::int32_t sums[kTaskRows * kTaskColumns];
    const typename Tiles::Registers registers;
    for (std::int64_t at = 0; at < columns; at += Tiles::kColumns)
      Tiles::multiply(registers, a_panel(s, i), rows, b_panel(s, j + at), s.k, sums + at);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int32_t* const row = sums + r * kTaskColumns;
      std::int32_t* const waiting = waiting_ + (i + r) * layout_.columns + j;
      if (!s.first)
        for (std::int64_t c = 0; c < columns; ++c) row[c] += waiting[c];
      if (s.last)
        store_sums(Dtype::i32, g_.c.data,
                   c_at_ + (s.i0 + i + r) * g_.c.row + (s.j0 + j) * g_.c.column, g_.c.column,
                   static_cast<int>(columns), row);
      else
        std::copy_n(row, columns, waiting);
    }
  }

 private:
  std::byte* a_panel(const Step& s, std::int64_t i) const {
    return a_ + i / Tiles::kRows * Tiles::a_bytes(s.k);
  }
  std::byte* b_panel(const Step& s, std::int64_t j) const {
    return b_ + j / Tiles::kColumns * Tiles::b_bytes(s.k);
  }

  const Geometry& g_;
  Layout<Tiles> layout_;
  Side a_side_, b_side_;
  std::int64_t c_at_;
  std::byte *a_, *b_;
  std::int32_t* waiting_;
};

template <class Tiles>
Result<void> run(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                 const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  const Geometry g = vectors_along_rows(geometry_of(p, operands), Tiles::kColumns);
  for_batches(stream, workspace, g.m, g.n, g.k, g.batches.count, bytes_of<Tiles>(g.m, g.n, g.k),
              [&](const Stream& on, std::byte* bytes, std::int64_t batch) {
                run_blocked(on, kCut, g.m, g.n, g.k, Engine<Tiles>(g, batch, bytes));
              });
  return {};
}

std::string refusal(const MatmulProblem& p, bool available, const char* what) {
  if (p.element_dtype != Dtype::s8)
    return "multiplies s8 alone, a is " + std::string(name(p.element_dtype));
  return available ? "" : needs_of_cpu(what);
}

}  // namespace

std::string matmul_amx_refusal(const MatmulProblem& p) {
  return refusal(p, amx_available(), "AMX for s8");
}
Result<void> matmul_amx(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                        const Operands& operands) {
  return run<AmxBytes>(stream, workspace, p, operands);
}
std::size_t matmul_amx_workspace(const MatmulProblem& p) {
  return blocked_workspace(p.batch, p.m, p.n, p.k, bytes_of<AmxBytes>);
}

std::string matmul_vnni_refusal(const MatmulProblem& p) {
  return refusal(p, vnni_available(), "AVX-512 with VNNI");
}
Result<void> matmul_vnni(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                         const Operands& operands) {
  return run<VnniBytes>(stream, workspace, p, operands);
}
std::size_t matmul_vnni_workspace(const MatmulProblem& p) {
  return blocked_workspace(p.batch, p.m, p.n, p.k, bytes_of<VnniBytes>);
}

}  // namespace planck
