// The index and sort families past 2^31 elements on CUDA. Operands are made and results checked on
// the device; they take up to 40 GB there.
#include <gtest/gtest.h>

#include <cstdlib>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/index/index.h"
#include "planck/ops/sort/sort.h"
#include "planck/verify/on_device.test.h"

namespace planck {
namespace {

constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 4097;

__host__ __device__ std::uint32_t mixed(std::int64_t i) {
  const auto x = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((x ^ x >> 31) >> 17);
}

template <class F>
__global__ void for_each(std::int64_t count, F f) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    f(i);
}

template <class F>
struct Count {
  F is_right;
  unsigned long long* wrong;
  __device__ void operator()(std::int64_t i) const {
    if (!is_right(i)) atomicAdd(wrong, 1ull);
  }
};

struct Device {
  Stream stream = Stream::cuda().value();

  OwnedTensor tensor(Dtype dtype, const Shape& shape) {
    auto t = OwnedTensor::empty(stream, dtype, shape);
    EXPECT_TRUE(t) << t.error().message;
    return std::move(*t);
  }
  template <class F>
  void each(std::int64_t count, F f) {
    for_each<<<132 * 16, 256, 0, native(stream)>>>(count, f);
    EXPECT_TRUE(stream.synchronize());
  }
  template <class Plan>
  void run(const Plan& plan, const auto& args) {
    ASSERT_TRUE(plan) << plan.error().message;
    const auto workspace = allocate(stream, plan->workspace_size());
    ASSERT_TRUE(workspace) << workspace.error().message;
    const auto ran = plan->run(stream, {workspace->data(), workspace->bytes()}, args);
    ASSERT_TRUE(ran) << ran.error().message;
    const auto done = stream.synchronize();
    ASSERT_TRUE(done) << done.error().message;
  }
  // How many i below count are wrong.
  template <class F>
  std::int64_t wrong(std::int64_t count, F is_right) {
    const OwnedTensor counter = tensor(Dtype::i64, {1});
    auto* at = counter.as<unsigned long long>();
    EXPECT_TRUE(cuda::fill(0, stream.native(), at, 0, 8));
    each(count, Count<F>{is_right, at});
    return number(counter);
  }
  std::int64_t number(const OwnedTensor& one) {
    const auto host = one.to(stream, Stream::cpu());
    EXPECT_TRUE(host);
    return *host->as<std::int64_t>();
  }
};

struct Reversed {
  bool* x;
  std::int64_t* index;
  __device__ void operator()(std::int64_t i) const {
    x[i] = (mixed(i) & 1) != 0;
    index[i] = kCount - 1 - i;
  }
};
struct IsReversed {
  const bool* out;
  __device__ bool operator()(std::int64_t i) const {
    return out[i] == ((mixed(kCount - 1 - i) & 1) != 0);
  }
};

TEST(IndexCudaLarge, GatherAndScatterInReverse) {
  PLANCK_NEEDS_TIME();
  Device d;
  const Shape shape = {kCount};
  const OwnedTensor x = d.tensor(Dtype::boolean, shape), out = d.tensor(Dtype::boolean, shape);
  const OwnedTensor index = d.tensor(Dtype::i64, shape);
  const TensorView<std::int64_t> indices = {index.as<std::int64_t>(), shape};
  d.each(kCount, Reversed{x.as<bool>(), indices.data});
  d.run(GatherPlan<bool>::select(d.stream, {.x = shape, .index = shape, .axis = 0}),
        GatherArgs<bool, std::int64_t>{
            .x = {x.as<bool>(), shape}, .index = indices, .out = {out.as<bool>(), shape}});
  EXPECT_EQ(d.wrong(kCount, IsReversed{out.as<bool>()}), 0);
  ASSERT_TRUE(cuda::fill(0, d.stream.native(), out.as<bool>(), 2, kCount));
  d.run(
      ScatterPlan<bool>::select(d.stream, {.x = shape, .index = shape, .axis = 0, .with_x = false}),
      ScatterArgs<bool, std::int64_t>{.x = {},
                                      .index = indices,
                                      .source = {x.as<bool>(), shape},
                                      .out = {out.as<bool>(), shape}});
  EXPECT_EQ(d.wrong(kCount, IsReversed{out.as<bool>()}), 0);
}

// Four of five are chosen: the k-th of them is at k + k / 4 + 1.
constexpr std::int64_t kChosen = kCount - (kCount + 4) / 5;
struct Masked {
  bool *x, *mask;
  __device__ void operator()(std::int64_t i) const {
    x[i] = (mixed(i) & 1) != 0;
    mask[i] = i % 5 != 0;
  }
};
struct IsPosition {
  const std::int64_t* at;
  __device__ bool operator()(std::int64_t k) const {
    return at[k] == (k < kChosen ? k + k / 4 + 1 : -1);
  }
};
struct IsChosen {
  const bool* values;
  __device__ bool operator()(std::int64_t k) const {
    return values[k] == (k < kChosen && (mixed(k + k / 4 + 1) & 1) != 0);
  }
};

TEST(IndexCudaLarge, NonzeroAndMaskSelect) {
  PLANCK_NEEDS_TIME();
  Device d;
  const Shape shape = {kCount};
  const OwnedTensor mask = d.tensor(Dtype::boolean, shape), x = d.tensor(Dtype::boolean, shape);
  const OwnedTensor values = d.tensor(Dtype::boolean, shape);
  const OwnedTensor positions = d.tensor(Dtype::i64, shape), one = d.tensor(Dtype::i64, {1});
  const TensorView<std::int64_t> count = {one.as<std::int64_t>(), Shape{}};
  d.each(kCount, Masked{x.as<bool>(), mask.as<bool>()});
  d.run(NonzeroPlan::select(d.stream, {.x = shape}),
        NonzeroArgs{.mask = {mask.as<bool>(), shape},
                    .positions = {positions.as<std::int64_t>(), shape},
                    .count = count});
  EXPECT_EQ(d.number(one), kChosen);
  EXPECT_EQ(d.wrong(kCount, IsPosition{positions.as<std::int64_t>()}), 0);
  d.run(MaskSelectPlan<bool>::select(d.stream, {.x = shape}),
        MaskSelectArgs<bool>{.x = {x.as<bool>(), shape},
                             .mask = {mask.as<bool>(), shape},
                             .values = {values.as<bool>(), shape},
                             .count = count});
  EXPECT_EQ(d.number(one), kChosen);
  EXPECT_EQ(d.wrong(kCount, IsChosen{values.as<bool>()}), 0);
}

struct Mixed {
  std::int32_t* x;
  __device__ void operator()(std::int64_t i) const { x[i] = static_cast<std::int32_t>(mixed(i)); }
};
// In order, ties by where they stood, and from where the index says.
struct IsSorted {
  const std::int32_t *x, *values;
  const std::int64_t* index;
  std::int64_t length;
  __device__ bool operator()(std::int64_t i) const {
    const std::int64_t from = index[i];
    if (from < 0 || from >= length || x[i / length * length + from] != values[i]) return false;
    if (i % length == 0 || values[i - 1] < values[i]) return true;
    return values[i - 1] == values[i] && index[i - 1] < from;
  }
};

// Rows that a block sorts, and rows longer than that.
TEST(SortCudaLarge, RowsAreSortedAndKnowWhereTheyCameFrom) {
  PLANCK_NEEDS_TIME();
  Device d;
  for (const std::int64_t length : {std::int64_t{1031}, std::int64_t{1} << 28}) {
    const Shape shape = {kCount / length + 1, length};
    const OwnedTensor x = d.tensor(Dtype::i32, shape), values = d.tensor(Dtype::i32, shape);
    const OwnedTensor indices = d.tensor(Dtype::i64, shape);
    d.each(numel(shape), Mixed{x.as<std::int32_t>()});
    d.run(SortPlan<std::int32_t>::select(d.stream, {.x = shape, .axis = 1}),
          SortArgs<std::int32_t>{.x = {x.as<std::int32_t>(), shape},
                                 .values = {values.as<std::int32_t>(), shape},
                                 .indices = {indices.as<std::int64_t>(), shape}});
    EXPECT_EQ(d.wrong(numel(shape), IsSorted{x.as<std::int32_t>(), values.as<std::int32_t>(),
                                             indices.as<std::int64_t>(), length}),
              0)
        << length;
  }
}

}  // namespace
}  // namespace planck
