#include <cuda_runtime.h>

#include <vector>

#include "planck/core/half.h"
#include "planck/math/philox.h"
#include "tests/conformance/half_on_device.h"

namespace planck::conformance {

namespace {

constexpr std::uint32_t kSamples = 1u << 24;

// All conversions of sample i, folded: host and device run this very function.
struct Bits {
  std::uint64_t words[4];
};
__host__ __device__ Bits convert(std::uint32_t i) {
  const auto pattern = static_cast<std::uint16_t>(i);
  const Philox4 r = PhiloxStream{5, 0}.words(i);
  const auto bits32 = [](float x) { return static_cast<std::uint64_t>(half_detail::bits_of(x)); };
  const float f = half_detail::f32_from_bits(r.v[0]);
  const std::uint64_t wide = (static_cast<std::uint64_t>(r.v[1]) << 32) | r.v[2];
  double d;
  memcpy(&d, &wide, sizeof d);
  const double mild = static_cast<double>(r.v[1]) * 0x1p-20 + static_cast<double>(r.v[2]) * 0x1p-52;
  return {{bits32(static_cast<float>(f16::from_bits(pattern))) << 32 |
               bits32(static_cast<float>(bf16::from_bits(pattern))),
           std::uint64_t{f16(static_cast<float>(f16::from_bits(pattern))).bits} << 48 |
               std::uint64_t{bf16(static_cast<float>(bf16::from_bits(pattern))).bits} << 32 |
               std::uint64_t{f16(f).bits} << 16 | bf16(f).bits,
           std::uint64_t{f16(d).bits} << 16 | bf16(d).bits,
           std::uint64_t{f16(mild).bits} << 16 | bf16(mild).bits}};
}

__global__ void convert_all(Bits* out) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = convert(i);
}

}  // namespace

Result<std::string> conversions_that_differ_on_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    return fail(ErrorCode::device, "no CUDA device");
  Bits* device = nullptr;
  if (cudaMalloc(&device, kSamples * sizeof(Bits)) != cudaSuccess)
    return std::string("no device memory");
  convert_all<<<kSamples / 256, 256>>>(device);
  std::vector<Bits> got(kSamples);
  const cudaError_t status =
      cudaMemcpy(got.data(), device, kSamples * sizeof(Bits), cudaMemcpyDeviceToHost);
  (void)cudaFree(device);
  if (status != cudaSuccess) return std::string(cudaGetErrorString(status));
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    const Bits expected = convert(i);
    for (int k = 0; k < 4; ++k)
      if (got[i].words[k] != expected.words[k])
        return "sample " + std::to_string(i) + ", group " + std::to_string(k) +
               " of conversions differs";
  }
  return std::string();
}

}  // namespace planck::conformance
