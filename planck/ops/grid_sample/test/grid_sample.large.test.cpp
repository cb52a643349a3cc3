// Extents and offsets past 2^31, in memory of which only a few pages are ever touched.
#include "planck/ops/grid_sample/grid_sample.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

// Zeros, as many as wanted.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  SparseMemory(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (given()) munmap(data_, bytes_);
  }
  bool given() const { return data_ != MAP_FAILED; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(GridSampleLarge, ExtentsPastTwoToThe31) {
  const std::int64_t width = (std::int64_t{1} << 31) + 101;
  const SparseMemory memory(static_cast<std::size_t>(width) * sizeof(double));
  if (!memory.given()) GTEST_SKIP() << "no room for 17 GB of address space";
  double* image = memory.as<double>();
  const Shape input = {1, 1, 1, width}, grid = {1, 1, 4, 2};
  image[0] = 3;
  image[width - 2] = 5;
  image[width - 1] = 7;
  // align_corners: s = (g + 1) / 2 · (width − 1).
  const double last = static_cast<double>(width - 1);
  const std::vector<double> points = {-1, 0, 1, 0, 2 * (last - 1) / last - 1, 0, 1.5, 0};
  for (SampleMode mode : {SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic})
    for (SamplePadding padding : {SamplePadding::zeros, SamplePadding::border}) {
      std::vector<double> out(4, -1);
      run<GridSamplePlan<double>>(
          {input, grid, mode, padding, true},
          {{image, input}, {points.data(), grid}, {out.data(), {1, 1, 1, 4}}});
      EXPECT_EQ(out[0], 3);
      EXPECT_EQ(out[1], 7);
      EXPECT_NEAR(out[2], 5, 1e-5);
      EXPECT_EQ(out[3], padding == SamplePadding::zeros ? 0 : 7);
    }
}

TEST(GridSampleLarge, StridesPastTwoToThe31) {
  const std::int64_t far = (std::int64_t{1} << 31) + 5;
  const SparseMemory in(static_cast<std::size_t>(2 * far + 2) * sizeof(float));
  const SparseMemory gradient(static_cast<std::size_t>(2 * far + 2) * sizeof(float));
  if (!in.given() || !gradient.given()) GTEST_SKIP() << "no room for 34 GB of address space";
  const Shape input = {1, 1, 2, 3}, grid = {1, 1, 2, 2}, out_shape = {1, 1, 1, 2};
  const Strides strides = {1, 1, 1, far};
  for (std::int64_t y = 0; y < 2; ++y)
    for (std::int64_t x = 0; x < 3; ++x)
      in.as<float>()[y + x * far] = static_cast<float>(10 * y + x);
  const std::vector<float> points = {1, 1, 0, -1}, dout = {2, 3};
  std::vector<float> out(2), dgrid(4);
  GridSampleDescriptor d{.input = input, .grid = grid};
  d.align_corners = true;
  run<GridSamplePlan<float>>(
      d, {{in.as<const float>(), input, strides}, {points.data(), grid}, {out.data(), out_shape}});
  EXPECT_EQ(out, (std::vector<float>{12, 1}));
  run<GridSampleBackwardPlan<float>>(d, {{dout.data(), out_shape},
                                         {in.as<const float>(), input, strides},
                                         {points.data(), grid},
                                         {gradient.as<float>(), input, strides},
                                         {dgrid.data(), grid}});
  EXPECT_EQ(gradient.as<float>()[1 + 2 * far], 2);
  EXPECT_EQ(gradient.as<float>()[far], 3);
  EXPECT_EQ(gradient.as<float>()[2 * far], 0);
}

}  // namespace
}  // namespace planck
