// The sort family past 2^31 elements on CUDA. Operands are made and results checked on the device;
// they take up to 40 GB there.
#include "planck/ops/sort/sort.h"
#include "planck/verify/large_tensors.test.cuh"

namespace planck {
namespace {

using namespace large_test;

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
  LargeTensors d;
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
