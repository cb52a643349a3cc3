// Trials of tensor cores: a block of four warps draws one, lets the instruction multiply it, and
// holds all of its outputs to the contract, computed by integer arithmetic.
#include "planck/core/cuda/runtime.h"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/follows.h"
#include "planck/loops/gemm/cuda/wgmma.cuh"
#include "planck/loops/gemm/trials.h"

namespace planck::gemm_device {

namespace {

namespace rule = math::tensor_core;
using gemm::Trial;

constexpr int kThreads = 128;
constexpr int kWords = 8;  // of 32 bits: a line's factors, 16 or 8 of them
constexpr int kRows = Trial::kRows, kColumns = Trial::kColumns;
constexpr int kLines = kRows + kColumns;

struct Found {
  unsigned long long outputs, differing;
  unsigned long long first;  // inverted, so that the largest is the first
};

struct TrialArgs {
  std::uint64_t seed;
  std::int64_t first, count, spoiled;
  Found* found;
  float* outputs;  // of the first trial, or null
};

template <class Format>
using ElementOf =
    std::conditional_t<std::is_same_v<Format, rule::Bf16>, bf16,
                       std::conditional_t<std::is_same_v<Format, rule::F16>, f16, float>>;

// Lines 0 … kRows − 1 are rows of A, the rest columns of B.
template <class Format>
struct Drawn {
  using Bits = typename Format::Bits;
  static_assert(Format::kBlock * sizeof(Bits) == kWords * 4);
  union {
    std::uint32_t words[kLines][kWords];
    Bits factors[kLines][Format::kBlock];
  };
  float sums[kRows][kColumns];  // before, then after the instruction
};

// Of a lane's 16 sums, s[4 j + 2 h + i] belongs to row 16 warp + lane / 4 + 8 h and to column
// 8 j + lane % 4 * 2 + i, for both instructions.
template <class Put>
__device__ __forceinline__ void each_sum(Put put) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        put(4 * j + 2 * h + i, 16 * warp + lane / 4 + 8 * h, 8 * j + lane % 4 * 2 + i);
}

// d += a b for 16 rows and 8 columns. A lane has words lane % 4 and lane % 4 + 4 of rows lane / 4
// and lane / 4 + 8 of A, and of column lane / 4 of B.
template <class Format>
__device__ __forceinline__ void mma_sync(float* d, const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
#define PLANCK_MMA(NAME)                                                                         \
  asm volatile("mma.sync.aligned." NAME " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (std::is_same_v<Format, rule::Bf16>)
    PLANCK_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  else if constexpr (std::is_same_v<Format, rule::F16>)
    PLANCK_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  else
    PLANCK_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
#undef PLANCK_MMA
#endif
}

template <class Format>
__device__ void multiply_by_warps(float (&s)[16], const Drawn<Format>& x) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = 16 * warp + lane / 4, word = lane % 4;
  const std::uint32_t a[4] = {x.words[row][word], x.words[row + 8][word], x.words[row][word + 4],
                              x.words[row + 8][word + 4]};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int column = kRows + 8 * j + lane / 4;
    const std::uint32_t b[2] = {x.words[column][word], x.words[column][word + 4]};
    mma_sync<Format>(s + 4 * j, a, b);
  }
}

// Tiles as the copy engine's swizzle would leave them: lines of 128 bytes, of which the first 32
// are multiplied, chunks of 16 bytes moved by the line's number modulo 8.
__device__ __forceinline__ std::uint32_t* swizzled(char* tiles, int line, int word) {
  const int chunk = (word / 4) ^ (line % 8);
  return reinterpret_cast<std::uint32_t*>(tiles + line * 128 + chunk * 16) + word % 4;
}

template <class Format>
__device__ void multiply_by_warpgroup(float (&s)[16], const char* tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const auto settle = [&] {  // sums are in registers, and the compiler must not move them
#pragma unroll
    for (int i = 0; i < 16; ++i) asm volatile("" : "+f"(s[i])::"memory");
  };
  const std::uint64_t a = tile_descriptor<true>(tiles);
  const std::uint64_t b = tile_descriptor<true>(tiles + kRows * 128);
  settle();
  wgmma_begin();
  wgmma<ElementOf<Format>, kColumns, true, true>(s, a, b, 1);
  wgmma_end();
  wgmma_await<0>();
  settle();
#endif
}

template <Instruction kInstruction>
constexpr bool kCompiled =
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    true;
#elif __CUDA_ARCH__ >= 800
    kInstruction == Instruction::mma_sync;
#else
    false;
#endif

template <class Format, Instruction kInstruction>
__device__ void try_one(const Trial& t, Drawn<Format>& x, char* tiles) {
  using What = Trial::What;
  const int products = t.template products<Format>();
  for (int at = static_cast<int>(threadIdx.x); at < kLines * Format::kBlock; at += kThreads) {
    const int line = at / Format::kBlock, k = at % Format::kBlock;
    const bool is_b = line >= kRows;
    x.factors[line][k] = k < products ? gemm::factor<Format>(t, is_b ? What::b : What::a,
                                                             is_b ? line - kRows : line, k)
                                      : typename Format::Bits{0};
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < Trial::kOutputs; at += kThreads) {
    const int row = at / kColumns, column = at % kColumns;
    x.sums[row][column] =
        gemm::start<Format>(t, row, column, x.factors[row][0], x.factors[kRows + column][0]);
  }
  if constexpr (kInstruction == Instruction::wgmma) {
    for (int at = static_cast<int>(threadIdx.x); at < kLines * kWords; at += kThreads)
      *swizzled(tiles, at / kWords, at % kWords) = x.words[at / kWords][at % kWords];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // for what reads them
  }
  __syncthreads();
  float s[16];
  each_sum([&](int i, int row, int column) { s[i] = x.sums[row][column]; });
  if constexpr (kInstruction == Instruction::wgmma)
    multiply_by_warpgroup<Format>(s, tiles);
  else
    multiply_by_warps<Format>(s, x);
  each_sum([&](int i, int row, int column) { x.sums[row][column] = s[i]; });
  __syncthreads();
}

template <class Format, Instruction kInstruction>
__global__ void __launch_bounds__(kThreads) compare_trials(TrialArgs p) {
  if constexpr (kCompiled<kInstruction>) {
    __shared__ __align__(16) Drawn<Format> x;
    // Tiles of the instruction begin at multiples of 1,024 bytes.
    __shared__ __align__(
        16) char room[kInstruction == Instruction::wgmma ? kLines * 128 + 1024 : 16];
    char* const tiles = room + (1024 - (shared_address(room) & 1023)) % 1024;
    Found found = {};
    for (std::int64_t at = blockIdx.x; at < p.count; at += gridDim.x) {
      const Trial t{p.seed, static_cast<std::uint64_t>(p.first + at)};
      try_one<Format, kInstruction>(t, x, tiles);
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < Trial::kOutputs; i += kThreads) {
        const int row = i / kColumns, column = i % kColumns;
        const std::int64_t output = (p.first + at) * Trial::kOutputs + i;
        const float begin =
            gemm::start<Format>(t, row, column, x.factors[row][0], x.factors[kRows + column][0]);
        const float must =
            rule::add_block<Format>(begin, x.factors[row], x.factors[kRows + column]);
        const std::uint32_t spoilt = output == p.spoiled ? 1 : 0;
        const float got = math::from_bits(math::bits_of(x.sums[row][column]) ^ spoilt);
        if (p.outputs != nullptr && at == 0) p.outputs[i] = got;
        ++found.outputs;
        if (math::bits_of(math::canonical(got)) == math::bits_of(math::canonical(must))) continue;
        ++found.differing;
        found.first = max(found.first, ~static_cast<unsigned long long>(output));
      }
      __syncthreads();
    }
    atomicAdd(&p.found->outputs, found.outputs);
    atomicAdd(&p.found->differing, found.differing);
    atomicMax(&p.found->first, found.first);
  }
}

using Kernel = void (*)(TrialArgs);
template <Instruction kInstruction>
Kernel kernel_for(Dtype element) {
  return element == Dtype::bf16  ? compare_trials<rule::Bf16, kInstruction>
         : element == Dtype::f16 ? compare_trials<rule::F16, kInstruction>
                                 : compare_trials<rule::Tf32, kInstruction>;
}

// Memory of the device for the time of a call; no stream's order matters, since all is awaited.
struct DeviceMemory {
  int ordinal;
  void* data = nullptr;
  explicit DeviceMemory(int on) : ordinal(on) {}
  ~DeviceMemory() {
    if (data != nullptr) cuda::release(ordinal, data);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  Result<void> take(std::size_t bytes) {
    auto got = cuda::allocate(ordinal, bytes);
    if (!got) return tl::unexpected(got.error());
    data = *got;
    return {};
  }
};

// What a thread may not do while a stream of its own is captured, such as taking memory, it may
// within this.
class WithinCapture {
 public:
  WithinCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~WithinCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  WithinCapture(const WithinCapture&) = delete;
  WithinCapture& operator=(const WithinCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

Result<Comparison> run_trials(const Stream& stream, const Trials& trials) {
  if (trials.count <= 0) return Comparison{};
  const int ordinal = stream.device().ordinal;
  const DeviceScope scope(ordinal);
  if (auto ok = scope.entered(); !ok) return tl::unexpected(ok.error());
  constexpr std::size_t kOutputBytes = Trial::kOutputs * sizeof(float);
  DeviceMemory memory(ordinal);
  if (auto ok = memory.take(256 + kOutputBytes); !ok) return tl::unexpected(ok.error());
  auto* const outputs = reinterpret_cast<float*>(static_cast<char*>(memory.data) + 256);
  int processors = 1;
  (void)cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal);
  const TrialArgs args{trials.seed,
                       trials.first,
                       trials.count,
                       trials.spoiled,
                       static_cast<Found*>(memory.data),
                       trials.outputs != nullptr ? outputs : nullptr};
  const Kernel kernel = trials.instruction == Instruction::wgmma
                            ? kernel_for<Instruction::wgmma>(trials.element)
                            : kernel_for<Instruction::mma_sync>(trials.element);
  Found found = {};
  auto ok = cuda::fill(ordinal, stream.native(), memory.data, 0, 256 + kOutputBytes);
  if (ok)
    ok =
        launch(stream, "tensor cores", kernel,
               std::min<std::int64_t>(trials.count, 16 * std::int64_t{processors}), kThreads, args);
  if (ok) ok = cuda::copy_to_host(ordinal, stream.native(), &found, memory.data, sizeof found);
  if (ok && trials.outputs != nullptr)
    ok = cuda::copy_to_host(ordinal, stream.native(), trials.outputs, outputs, kOutputBytes);
  // Whatever went wrong, nothing of it runs on when memory is released.
  if (auto done = stream.synchronize(); ok) ok = done;
  if (!ok) return tl::unexpected(ok.error());
  const auto expected = static_cast<unsigned long long>(trials.count) * Trial::kOutputs;
  if (found.outputs != expected)
    return fail(ErrorCode::device, "tensor cores: this build has no code for " +
                                       std::string(name(trials.instruction)) + " on the device");
  return Comparison{static_cast<std::int64_t>(found.outputs),
                    static_cast<std::int64_t>(found.differing),
                    found.differing == 0 ? -1 : static_cast<std::int64_t>(~found.first)};
}

Result<Comparison> probe(Device device, Dtype element, Instruction instruction) {
  const WithinCapture relaxed;
  const auto stream = Stream::cuda(device.ordinal);
  if (!stream) return tl::unexpected(stream.error());
  return run_trials(*stream, {element, instruction, 0, 0, 1024});
}

}  // namespace planck::gemm_device
