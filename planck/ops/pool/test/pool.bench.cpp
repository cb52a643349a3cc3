// Shapes of the pool family worth timing: those of a small network, and images that leave the
// caches.
#include "planck/ops/ops.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

std::vector<BenchCase> pool_benches(DeviceKind device) {
  const bool cuda = device == DeviceKind::cuda;
  const Shape small = {64, 32, 16, 16};
  const Shape large = cuda ? Shape{64, 64, 224, 224} : Shape{8, 16, 224, 224};
  std::vector<BenchCase> all;
  const auto add = [&](std::string_view op, Dtype dtype, const Shape& shape) {
    all.push_back({*pool_example(op, {dtype, std::nullopt}, shape)});
  };
  constexpr std::string_view kOps[] = {"max_pool2d", "max_pool2d_backward", "avg_pool2d",
                                       "avg_pool2d_backward"};
  for (const Shape& shape : {small, large})
    for (std::string_view op : kOps) add(op, Dtype::f32, shape);
  for (std::string_view op : kOps) add(op, Dtype::bf16, large);
  // Overlapping windows, as at the entrance of larger networks.
  for (std::string_view op : kOps) {
    add(op, Dtype::f32, large);
    Case& c = all.back().test_case;
    c.attributes["kernel"] = "3";
    c.attributes["stride"] = "2";
    c.attributes["padding"] = "1";
  }
  // Whole planes, as at the exit.
  const Shape planes = {64, 64, 8, 8};
  add("adaptive_avg_pool2d", Dtype::f32, planes);
  all.back().test_case.attributes["size"] = "1";
  add("adaptive_avg_pool2d_backward", Dtype::f32, planes);
  all.back().test_case.inputs[0].shape = {64, 64, 1, 1};
  add("max_pool2d", Dtype::f32, {1, 2, 2});
  all.back().call = true;
  return all;
}

}  // namespace planck::verify
