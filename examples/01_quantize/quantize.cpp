#include "planck/ops/quantize/quantize.h"

#include <cstdio>
#include <vector>

int main() {
  using namespace planck;
  const Shape shape = {2, 4};  // two channels
  const std::vector<float> x = {0.5f, -1.0f, 2.0f, 7.9f, 10.f, -20.f, 30.f, 1e9f};
  const std::vector<float> scale = {0.0625f, 0.25f};
  const std::vector<std::int32_t> zero_point = {0, 0};
  std::vector<std::int8_t> q(8);

  const Stream stream = Stream::cpu();  // or *Stream::cuda(), with device pointers
  auto plan = QuantizePerChannelPlan<float, std::int8_t>::select(
      stream, {.shape = shape, .groups = {.axis = 0}});
  if (!plan) return std::fprintf(stderr, "%s\n", plan.error().message.c_str()), 1;

  auto done = plan->run(stream, Workspace{},
                        {.x = {x.data(), shape},
                         .scale = {scale.data(), {2}},
                         .zero_point = {zero_point.data(), {2}},
                         .q = {q.data(), shape}});
  if (!done) return std::fprintf(stderr, "%s\n", done.error().message.c_str()), 1;

  std::printf("%s:", plan->sku().kernel.data());
  for (int value : q) std::printf(" %d", value);  // 8 -16 32 126 40 -80 120 127
  std::printf("\n");
}
