// cuda:cublaslt: the toolkit's library, loaded on first use: nothing else needs it to be installed.
// f32 in plain f32 (no TF32), 16-bit floats with f32 sums.
//
// How the library adds depends on layouts and alignment, so that it only ever sees dense matrices
// at multiples of 16 bytes: others are copied to the workspace. The algorithm it advises for a
// problem is kept by each thread. Reductions whose order varies are not allowed.
#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <string>

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/matmul/cuda/kernels.h"

namespace planck {

namespace {

struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) desc_init = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) advise = nullptr;
  bool loaded = true;

  Library() {
    const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto find = [&](auto& function, const char* symbol) {
      if (handle != nullptr)
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      loaded = loaded && function != nullptr;
    };
    find(create, "cublasLtCreate");
    find(matmul, "cublasLtMatmul");
    find(desc_init, "cublasLtMatmulDescInit_internal");
    find(layout_init, "cublasLtMatrixLayoutInit_internal");
    find(layout_set, "cublasLtMatrixLayoutSetAttribute");
    find(preference_init, "cublasLtMatmulPreferenceInit_internal");
    find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(advise, "cublasLtMatmulAlgoGetHeuristic");
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

Result<void> library_result(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return fail(ErrorCode::device, "matmul: cublasLt: " + std::string(what) + " gives status " +
                                     std::to_string(static_cast<int>(status)));
}

// One per device ordinal and thread, made on its first run.
Result<cublasLtHandle_t> handle_on(int ordinal) {
  thread_local std::array<cublasLtHandle_t, 64> handles{};
  if (ordinal < 0 || ordinal >= 64) return fail(ErrorCode::device, "matmul: cublasLt: device > 63");
  cublasLtHandle_t& handle = handles[static_cast<std::size_t>(ordinal)];
  if (handle == nullptr)
    if (auto ok = library_result(library().create(&handle), "create"); !ok)
      return tl::unexpected(ok.error());
  return handle;
}

// The library's matrices are column-major: C^T = B^T A^T.
struct Call {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c;
};

Result<void> describe(const MatmulProblem& p, Call& call) {
  const Library& lib = library();
  const bool f64 = p.element_dtype == Dtype::f64;
  const cudaDataType_t type = f64                             ? CUDA_R_64F
                              : p.element_dtype == Dtype::f32 ? CUDA_R_32F
                              : p.element_dtype == Dtype::f16 ? CUDA_R_16F
                                                              : CUDA_R_16BF;
  auto ok = library_result(
      lib.desc_init(&call.desc, sizeof(call.desc), f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                    f64 ? CUDA_R_64F : CUDA_R_32F),
      "describe");
  const std::int32_t batches = static_cast<std::int32_t>(numel(p.batch));
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& to, std::int64_t rows,
                          std::int64_t columns) {
    const std::int64_t stride = rows * columns;
    const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
      if (ok) ok = library_result(lib.layout_set(&to, which, &value, sizeof(value)), "layout");
    };
    if (ok)
      ok = library_result(lib.layout_init(&to, sizeof(to), type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
                          "layout");
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  };
  layout(call.a, p.n, p.k);
  layout(call.b, p.k, p.m);
  layout(call.c, p.n, p.m);
  return ok;
}

// The advised algorithm: kept from one of the last few problems, or requested anew.
Result<cublasLtMatmulAlgo_t> algorithm(const MatmulProblem& p, int ordinal, cublasLtHandle_t handle,
                                       Call& call) {
  struct Known {
    MatmulProblem problem;
    int ordinal = -1;
    cublasLtMatmulAlgo_t algorithm;
  };
  thread_local std::array<Known, 8> known;
  thread_local std::size_t next = 0;
  for (const Known& k : known)
    if (k.ordinal == ordinal && k.problem == p) return k.algorithm;
  const Library& lib = library();
  cublasLtMatmulPreferenceOpaque_t preference;
  auto ok = library_result(lib.preference_init(&preference, sizeof(preference)), "preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    if (ok)
      ok = library_result(lib.preference_set(&preference, which, &value, sizeof(value)),
                          "preference");
  };
  const std::uint64_t own = CublasltLayout::kOwn;
  const std::uint32_t alignment = 16, reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, own);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  if (!ok) return tl::unexpected(ok.error());
  cublasLtMatmulHeuristicResult_t advised{};
  int found = 0;
  ok = library_result(lib.advise(handle, &call.desc, &call.a, &call.b, &call.c, &call.c,
                                 &preference, 1, &advised, &found),
                      "advice");
  if (ok && found == 0) ok = fail(ErrorCode::device, "matmul: cublasLt knows no algorithm");
  if (!ok) return tl::unexpected(ok.error());
  known[next++ % known.size()] = {p, ordinal, advised.algo};
  return advised.algo;
}

struct StridedView {
  int rank;
  std::int64_t extent[kMaxRank], stride[kMaxRank];
  __device__ std::int64_t offset(std::int64_t i) const {
    std::int64_t at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += i % extent[d] * stride[d];
      i /= extent[d];
    }
    return at;
  }
};

template <class T>
__global__ void make_dense(const T* from, StridedView view, T* to, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = from[view.offset(i)];
}

// C as the library left it, with canonical NaN and in its own layout; zeros where K is 0.
template <class T>
__global__ void finish(const T* from, StridedView view, T* to, std::int64_t count, bool zeros) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    T v = zeros ? T{} : from[i];
    const bool nan = widen(v) != widen(v);
    const bool there = from == to;
    if (nan) {
      if constexpr (sizeof(T) == 2)
        v = T::from_bits(std::is_same_v<T, f16> ? 0x7e00 : 0x7fc0);
      else
        v = canonical_nan(v);
    }
    if (nan || !there || zeros) to[there ? i : view.offset(i)] = v;
  }
}

StridedView strided(const View& v) {
  StridedView s{v.shape.rank(), {}, {}};
  for (int d = 0; d < s.rank; ++d) {
    s.extent[d] = v.shape[d];
    s.stride[d] = v.strides[d];
  }
  return s;
}

bool is_dense(const View& v) {
  return is_contiguous(v.shape, v.strides) && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
}

std::int64_t blocks_for(std::int64_t count) {
  return ceil_div(count, 256) < 4096 ? ceil_div(count, 256) : 4096;
}

template <class T>
Result<void> multiply(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                      const Operands& operands) {
  const CublasltLayout layout(p);
  auto* memory = static_cast<std::byte*>(workspace.data);
  const View &a = operands[0], &b = operands[1], &c = operands[2];
  Result<void> ok;
  const auto dense = [&](const View& v, std::size_t at) {
    if (is_dense(v) || numel(v.shape) == 0) return static_cast<T*>(v.data);
    T* copy = reinterpret_cast<T*>(memory + at);
    const std::int64_t count = numel(v.shape);
    if (ok)
      ok = launch(stream, "matmul: dense copy", make_dense<T>, blocks_for(count), 256,
                  static_cast<const T*>(v.data), strided(v), copy, count);
    return copy;
  };
  const std::int64_t count = numel(c.shape);
  T* const to = static_cast<T*>(c.data);
  T* const made = is_dense(c) ? to : reinterpret_cast<T*>(memory + layout.c);
  if (p.k > 0) {
    const T *from_a = dense(a, layout.a), *from_b = dense(b, layout.b);
    const int ordinal = stream.device().ordinal;
    const auto handle = handle_on(ordinal);
    if (!handle) return tl::unexpected(handle.error());
    Call call;
    if (ok) ok = describe(p, call);
    if (!ok) return ok;
    const auto algo = algorithm(p, ordinal, *handle, call);
    if (!algo) return tl::unexpected(algo.error());
    const Compute<T> one = 1, zero = 0;
    ok = library_result(library().matmul(*handle, &call.desc, &one, from_b, &call.a, from_a,
                                         &call.b, &zero, made, &call.c, made, &call.c, &*algo,
                                         memory + layout.own, CublasltLayout::kOwn, native(stream)),
                        "matmul");
    if (!ok) return ok;
  }
  return launch(stream, "matmul: finish", finish<T>, blocks_for(count), 256,
                static_cast<const T*>(made), strided(c), to, count, p.k == 0);
}

}  // namespace

Result<void> matmul_cublaslt(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                             const Operands& operands) {
  if (p.m == 0 || p.n == 0 || numel(p.batch) == 0) return {};
  if (!library().loaded)
    return fail(ErrorCode::unsupported, "matmul: cuda:cublaslt: libcublasLt.so." +
                                            std::to_string(CUBLAS_VER_MAJOR) + " is not found");
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_float(p.element_dtype, [&](auto type) {
    return multiply<typename decltype(type)::type>(stream, workspace, p, operands);
  });
}

}  // namespace planck
