// What a plan promises and what a caller may ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "planck/core/device.h"
#include "planck/core/dtype.h"
#include "planck/core/product_math.h"

namespace planck {

enum class Reproducibility : std::uint8_t {
  none,          // correct within the bound; the order of additions may differ between launches
  run_to_run,    // same binary, device model and inputs: same bits, any thread count or load
  cross_device,  // same bits on every CPU and GPU, any thread count, grid size or batch split
};

constexpr std::string_view name(Reproducibility r) {
  constexpr std::string_view kNames[] = {"none", "run_to_run", "cross_device"};
  return kNames[static_cast<int>(r)];
}

struct PlanPreference {
  // Kernels that need more or promise less are not considered.
  std::size_t max_workspace_bytes = SIZE_MAX;
  Reproducibility at_least = Reproducibility::run_to_run;
  // Only the kernel of this name, e.g. "cuda:atomic".
  std::optional<std::string_view> kernel = {};
};

struct PrecisionGuarantee {
  Dtype math = Dtype::f32, accumulator = Dtype::f32;
  Reproducibility reproducibility = Reproducibility::cross_device;
  // Distance from the formula in exact arithmetic, in units in the last place of the result dtype;
  // 0: the correctly rounded value. For sums: relative to the sum of the magnitudes of the terms.
  double max_ulp = 0;
  // The bound of sums is relative to the number of their terms times the largest factor of either
  // side, not to the terms themselves.
  bool by_norms = false;
  // A row of a result has the bits it would have alone: they depend on its own row of the input,
  // not on how many others there are. Rows of A for products, images of x for convolutions,
  // sequences for attention; stated where somebody might doubt it.
  bool batch_invariant = false;

  constexpr bool deterministic() const { return reproducibility != Reproducibility::none; }
  constexpr bool bit_stable_on_same_hardware() const {
    return reproducibility != Reproducibility::none;
  }
};

enum class OpCategory : std::uint8_t {
  quantize,
  embedding,
  sampling,
  reduction,
  softmax,
  normalization,
  matmul,
  convolution,
  attention,
  pooling,
  elementwise,
  index,
  sort,
};

constexpr std::string_view name(OpCategory c) {
  constexpr std::string_view kNames[] = {
      "quantize",    "embedding", "sampling", "reduction",   "softmax", "normalization", "matmul",
      "convolution", "attention", "pooling",  "elementwise", "index",   "sort",
  };
  return kNames[static_cast<int>(c)];
}

// Identity of the kernel a plan picked.
struct KernelSku {
  OpCategory category;
  std::string_view op, kernel;
  Dtype element;
  std::optional<Dtype> aux;
  std::string_view arch;  // "avx512", "avx2", "baseline"; "sm_90", …
  DeviceKind backend;
  PrecisionGuarantee guarantee;
  std::optional<ProductMath> product = {};  // what its products mean, where it has any
};

}  // namespace planck
