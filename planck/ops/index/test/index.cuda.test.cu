// The index family past 2^31 elements on CUDA. Operands are made and results checked on the device;
// they take more than 20 GB there.
#include "planck/ops/index/index.h"
#include "planck/verify/large_tensors.test.cuh"

namespace planck {
namespace {

using namespace large_test;

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
  LargeTensors d;
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
  LargeTensors d;
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

}  // namespace
}  // namespace planck
