// Tensors of other libraries, where memory is short.
#include <gtest/gtest.h>

#include <new>

#include "planck/backend/dlpack.h"
#include "planck/training.h"
#include "tests/tape/failing_new.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

// Whichever allocation fails, the structure stays the caller's; its deleter is called once, by the
// tensors that took it.
template <class Managed>
void check_failures(Managed managed) {
  float elements[2] = {1, 2};
  std::int64_t shape[1] = {2};
  int deleted = 0;
  managed.tensor = {elements, {dlpack::cpu, 0}, 1, {dlpack::floating, 32, 1}, shape, nullptr, 0};
  managed.context = &deleted;
  managed.deleter = [](Managed* m) { ++*static_cast<int*>(m->context); };
  (void)Cpu::default_device();
  std::optional<Tensor<A>> taken;
  int failures = 0;
  while (!taken) {
    try {
      fail_new(failures);
      taken = from_dlpack<A>(&managed);
      fail_new(-1);
    } catch (const std::bad_alloc&) {
      fail_new(-1);
      ASSERT_EQ(deleted, 0) << "after failure " << failures;
      ++failures;
    }
  }
  EXPECT_GE(failures, 2);
  EXPECT_EQ(taken->inner().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(deleted, 0);
  taken.reset();
  EXPECT_EQ(deleted, 1);
}

TEST(Borrowed, TensorsAreTheCallersWhereMemoryIsShort) {
  dlpack::ManagedTensorVersioned versioned{};
  versioned.version = {1, 0};
  check_failures(versioned);
  check_failures(dlpack::ManagedTensor{});
}

}  // namespace

}  // namespace planck::test
