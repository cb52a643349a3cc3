#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/warpgroups.h"
#include "planck/verify/checks/kernel_rounds.h"

namespace planck::verify {

namespace {

namespace rule = math::tensor_core;
using gemm::Trial;

constexpr int kThreads = 128;

// to: [k][lines]
template <class Format>
__global__ void draw(Trial t, Trial::What side, int lines, int k, typename Format::Bits* to) {
  const int at = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (at < lines * k) to[at] = gemm::factor<Format>(t, side, at % lines, at / lines);
}

struct Found {
  unsigned long long outputs, differing;
  unsigned long long first;  // inverted, so that the largest is the first
};

// a: [k][m], b: [k][n], c: [m][n]
template <class Format>
__global__ void __launch_bounds__(kThreads)
    compare(const typename Format::Bits* a, const typename Format::Bits* b, const float* c, int m,
            int n, int k, Found* found) {
  const int at = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const bool inside = at < m * n;
  bool same = true;
  if (inside) {
    const float must = rule::product<Format>(a + at / n, m, b + at % n, n, k);
    same = math::bits_of(math::canonical(c[at])) == math::bits_of(must);
  }
  const int outputs = __syncthreads_count(inside), differing = __syncthreads_count(!same);
  if (threadIdx.x == 0) {
    atomicAdd(&found->outputs, static_cast<unsigned long long>(outputs));
    if (differing != 0) atomicAdd(&found->differing, static_cast<unsigned long long>(differing));
  }
  if (!same) atomicMax(&found->first, ~static_cast<unsigned long long>(at));
}

template <class Format, class T>
Result<KernelComparison> compare_round_of(const Stream& stream, std::uint64_t seed,
                                          const KernelRound& r) {
  using Bits = typename Format::Bits;
  const int ordinal = stream.device().ordinal;
  const DeviceScope scope(ordinal);
  if (auto ok = scope.entered(); !ok) return tl::unexpected(ok.error());
  const auto bytes = [](std::int64_t elements, std::size_t size) {
    return static_cast<std::size_t>(elements) * size;
  };
  const std::int64_t m = r.m, n = r.n, k = r.k, deep = ceil_div(k, 4) * 4;
  const auto a = allocate(stream, bytes(m * k, sizeof(Bits))),
             b = allocate(stream, bytes(n * k, sizeof(Bits))),
             c = allocate(stream, bytes(m * n, sizeof(float))),
             room_a = allocate(stream, bytes(m * deep, sizeof(float))),  // f32 along k
      room_b = allocate(stream, bytes(n * deep, sizeof(float))),
             counts = allocate(stream, sizeof(Found));
  for (const auto* memory : {&a, &b, &c, &room_a, &room_b, &counts})
    if (!*memory) return tl::unexpected(memory->error());
  auto* const from_a = static_cast<Bits*>(a->data());
  auto* const from_b = static_cast<Bits*>(b->data());
  auto* const to = static_cast<float*>(c->data());
  auto* const found = static_cast<Found*>(counts->data());
  const Trial t = r.drawn(seed);
  constexpr const char* kName = "tensor cores";
  auto ok = cuda::fill(ordinal, stream.native(), found, 0, sizeof(Found));
  // What is not written is NaN, and differs.
  if (ok) ok = cuda::fill(ordinal, stream.native(), to, 0xff, bytes(m * n, sizeof(float)));
  if (ok)
    ok = launch(stream, kName, draw<Format>, ceil_div(m * k, kThreads), kThreads, t, Trial::What::a,
                r.m, r.k, from_a);
  if (ok)
    ok = launch(stream, kName, draw<Format>, ceil_div(n * k, kThreads), kThreads, t, Trial::What::b,
                r.n, r.k, from_b);
  gemm_device::WarpgroupRun run{};
  run.g.m = m, run.g.n = n, run.g.k = k;
  run.g.a = {from_a, Dtype::f32, 1, m};
  run.g.b = {from_b, Dtype::f32, n, 1};
  run.g.c = {to, Dtype::f32, n, 1};
  run.batches = 1;
  run.copies[0] = room_a->data(), run.copies[1] = room_b->data();
  run.sums = sizeof(T) == 2;
  bool ran = false;
  if (ok) ok = gemm_device::run_warpgroups<T>(stream, run, ran);
  if (ok && !ran) ok = fail(ErrorCode::device, "tensor cores: the copy engine takes no operand");
  if (ok)
    ok = launch(stream, kName, compare<Format>, ceil_div(m * n, kThreads), kThreads, from_a, from_b,
                to, r.m, r.n, r.k, found);
  Found got = {};
  if (ok) ok = cuda::copy_to_host(ordinal, stream.native(), &got, found, sizeof got);
  if (auto done = stream.synchronize(); ok) ok = done;
  if (!ok) return tl::unexpected(ok.error());
  if (got.outputs != static_cast<unsigned long long>(m * n))
    return fail(ErrorCode::device, "tensor cores: some outputs were not compared");
  KernelComparison result;
  result.found = {static_cast<std::int64_t>(got.outputs), static_cast<std::int64_t>(got.differing),
                  got.differing == 0 ? -1 : static_cast<std::int64_t>(~got.first)};
  if (got.differing == 0) return result;
  ok = cuda::copy_to_host(ordinal, stream.native(), &result.got, to + result.found.first,
                          sizeof(float));
  if (ok) ok = stream.synchronize();
  if (!ok) return tl::unexpected(ok.error());
  return result;
}

}  // namespace

Result<KernelComparison> compare_round(const Stream& stream, Dtype element, std::uint64_t seed,
                                       const KernelRound& round) {
  if (element == Dtype::bf16) return compare_round_of<rule::Bf16, bf16>(stream, seed, round);
  if (element == Dtype::f16) return compare_round_of<rule::F16, f16>(stream, seed, round);
  return compare_round_of<rule::Tf32, float>(stream, seed, round);
}

}  // namespace planck::verify
