// cpu:openblas: cblas_sgemm and cblas_dgemm of the installed libopenblas.so.0, loaded on first use:
// nothing else needs it to be installed.
//
// The library's own threads would make its bits depend on their number. Each call is told to use
// one, and parts of C, cut by shape alone, are tasks of the stream's threads. How the library adds
// depends on layouts too, so that it only ever sees dense matrices: others, and 16-bit floats, are
// copied to the workspace.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "planck/core/cpu/target.h"
#include "planck/loops/cpu/portions.h"
#include "planck/loops/gemm/cpu/epilogue.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/parallel.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck {

using namespace gemm;

namespace {

constexpr int kRowMajor = 101, kNoTrans = 111;  // of cblas.h
template <class C>
using Gemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, C alpha, const C* a,
                      int lda, const C* b, int ldb, C beta, C* c, int ldc);

struct Library {
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;

  Library() {
    // Version 0.3.21 takes a CPU it does not know for a Prescott, and is five times slower then. It
    // reads this variable once, when it is loaded.
    constexpr const char* kCore = "OPENBLAS_CORETYPE";
    const bool chosen = std::getenv(kCore) != nullptr;
    if (!chosen && cpu_target_name() == "avx512") setenv(kCore, "SKYLAKEX", 0);
    if (!chosen && cpu_target_name() == "avx2") setenv(kCore, "HASWELL", 0);
    void* handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!chosen) unsetenv(kCore);
    if (handle == nullptr) return;
    const auto threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
    if (threads == nullptr) return;
    threads(1);
    sgemm = reinterpret_cast<Gemm<float>>(dlsym(handle, "cblas_sgemm"));
    dgemm = reinterpret_cast<Gemm<double>>(dlsym(handle, "cblas_dgemm"));
  }
  bool loaded() const { return sgemm != nullptr && dgemm != nullptr; }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

constexpr std::int64_t kTaskRows = 512, kTaskColumns = 2048;
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class C>
bool is_dense(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  return x.dtype == dtype_of<C> && (x.column == 1 || columns == 1) &&
         (x.row == columns || rows == 1);
}

// Calls f(row, first column, columns) for pieces of at most kPortion elements.
template <class F>
void for_pieces(const Stream& stream, std::int64_t rows, std::int64_t columns, F&& f) {
  constexpr std::int64_t kRows = 64;
  parallel_for(stream, ceil_div(rows, kRows), [&](std::int64_t t) {
    for (std::int64_t r = t * kRows; r < std::min(rows, (t + 1) * kRows); ++r)
      for (std::int64_t c = 0; c < columns; c += kPortion)
        f(r, c, static_cast<int>(std::min<std::int64_t>(kPortion, columns - c)));
  });
}

template <class C>
const C* dense_input(const Stream& stream, const Matrix& x, std::int64_t offset, std::int64_t rows,
                     std::int64_t columns, C* copy) {
  if (is_dense<C>(x, rows, columns)) return static_cast<const C*>(x.data) + offset;
  for_pieces(stream, rows, columns, [&](std::int64_t r, std::int64_t c, int n) {
    load_portion(portion_ops(), x.dtype, x.data, offset + r * x.row + c * x.column, x.column, n,
                 copy + r * columns + c);
  });
  return copy;
}

template <class C>
void make_nan_canonical(C* values, std::int64_t n) {
  int any = 0;
  for (std::int64_t i = 0; i < n; ++i) any |= values[i] != values[i] ? 1 : 0;
  for (std::int64_t i = 0; i < n && any != 0; ++i)
    if (values[i] != values[i]) values[i] = std::numeric_limits<C>::quiet_NaN();
}

template <class C>
void multiply(const Stream& stream, C* workspace, const Geometry& g, std::int64_t batch,
              Gemm<C> gemm) {
  const std::int64_t c_at = g.batches.offset(2, batch);
  const C* a = dense_input(stream, g.a, g.batches.offset(0, batch), g.m, g.k, workspace);
  const C* b =
      dense_input(stream, g.b, g.batches.offset(1, batch), g.k, g.n, workspace + g.m * g.k);
  const bool in_place = is_dense<C>(g.c, g.m, g.n);
  C* const c = in_place ? static_cast<C*>(g.c.data) + c_at : workspace + g.m * g.k + g.k * g.n;
  const std::int64_t across = ceil_div(g.n, kTaskColumns);
  const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
  parallel_for(stream, ceil_div(g.m, kTaskRows) * across, [&](std::int64_t t) {
    const std::int64_t i = t / across * kTaskRows, j = t % across * kTaskColumns;
    const std::int64_t rows = std::min(kTaskRows, g.m - i),
                       columns = std::min(kTaskColumns, g.n - j);
    gemm(kRowMajor, kNoTrans, kNoTrans, narrow(rows), narrow(columns), narrow(g.k), C{1},
         a + i * g.k, narrow(std::max<std::int64_t>(1, g.k)), b + j, narrow(g.n), C{0},
         c + i * g.n + j, narrow(g.n));
    for (std::int64_t r = i; r < i + rows; ++r) make_nan_canonical(c + r * g.n + j, columns);
  });
  const Epilogue& e = g.epilogue;
  if (in_place && !e.any()) return;
  const std::int64_t residual_at = g.batches.offset(3, batch);
  for_pieces(stream, g.m, g.n, [&](std::int64_t r, std::int64_t j, int n) {
    const std::int64_t at = c_at + r * g.c.row + j * g.c.column;
    store_sums(g.c.dtype, g.c.data, at, g.c.column, n, c + r * g.n + j, e.bias, j * e.bias.column);
    follow_bias(e, g.c.dtype, g.c.data, at, g.c.column, n,
                residual_at + r * e.residual.row + j * e.residual.column);
  });
}

template <class C>
void multiply_all(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                  const Operands& operands, Gemm<C> gemm) {
  const Geometry g = geometry_of(p, operands, Fold::no);
  for (std::int64_t t = 0; t < g.batches.count; ++t)
    multiply(stream, static_cast<C*>(workspace.data), g, t, gemm);
}

}  // namespace

std::string matmul_openblas_refusal(const MatmulProblem& p) {
  if (!is_float(p.element_dtype))
    return "multiplies floats alone, a is " + std::string(name(p.element_dtype));
  if (std::max({p.m, p.n, p.k}) > INT32_MAX)
    return "counts in 32 bits, an extent is " + std::to_string(std::max({p.m, p.n, p.k}));
  return library().loaded() ? "" : "libopenblas.so.0 is not installed";
}

// Copies of one batch's A, B and C, as strides may ask for them.
std::size_t matmul_openblas_workspace(const MatmulProblem& p) {
  if (numel(p.batch) == 0) return 0;
  return static_cast<std::size_t>(p.m * p.k + p.k * p.n + p.m * p.n) *
         (p.element_dtype == Dtype::f64 ? 8 : 4);
}

Result<void> matmul_openblas(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                             const Operands& operands) {
  if (p.m == 0 || p.n == 0 || numel(p.batch) == 0) return {};
  if (p.element_dtype == Dtype::f64)
    multiply_all(stream, workspace, p, operands, library().dgemm);
  else
    multiply_all(stream, workspace, p, operands, library().sgemm);
  return {};
}

}  // namespace planck
