// What one asks for in the first week: numbers, indices, masks, sums of products, random choices,
// memory of others. Causal attention over random tokens, trained a few steps by hand.
#include <fmt/format.h>

#include <cmath>

#include "planck/backend/dlpack.h"
#include "planck/backend/fmt.h"
#include "planck/planck.h"

using namespace planck;
using A = Autodiff<Cpu>;

int main() {
  Rng rng{.seed = 7};
  constexpr std::int64_t kTokens = 16, kWidth = 8, kLength = 6;

  // Tensors from what a program has: a vector, other's memory, literals (f32), ranges.
  std::vector<float> table(kTokens * kWidth);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
  auto weights = Tensor<A>::from_blob(table.data(), {kTokens, kWidth}) + 0;  // a copy of our own
  const auto scale = Tensor<A>::scalar(1 / std::sqrt(double(kWidth)));
  const auto positions = linspace<A>(0, 1, kLength)[{kAll, kNewAxis}];

  // Draw tokens, look their rows up, mask what lies ahead.
  const auto tokens = randint<A>(rng, 0, kTokens, {kLength});
  const auto ahead = triu(full<A, BoolKind>({kLength, kLength}, true), 1);
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    weights = weights.detach().require_grad();
    const auto x = weights[tokens] + positions;
    const auto scores = einsum("qd,kd->qk", x, x) * scale;
    const auto attended = einsum("qk,kd->qd", softmax(mask_fill(scores, ahead, -1e30)), x);
    const auto loss = mean(square(attended[Range{.stop = -1}] - x[Range{.start = 1}]));
    const auto gradient = Tensor<A>::from_inner(*weights.grad(loss.backward()));
    weights -= clamp(gradient, -0.5, 0.5) * 0.5;
    last = loss.inner().item<float>();
    if (step == 0) first = last;
  }
  fmt::print("loss {:.4f} -> {:.4f}\n", first, last);

  // Parts of a variable, comparisons, bits, dtypes.
  auto w = weights.inner();
  w[{kAll, 0}] = 0;
  w[-1] += 1u;
  const auto large = (w > 0.5) & ~(w >= 1);
  const auto parity = randperm<Cpu>(rng, 8) & 1;
  const auto half = w.to(Dtype::f16) / 1e5;  // the number is beyond f16, the quotient is not
  fmt::print("{}\n{}\n{}\n", w[{Range{0, 2}, Range{0, 4}}], parity, sum(to_int(large)));
  const auto picked = multinomial(rng, softmax(w[0]), 3);

  // To another library and back, without a copy.
  const auto back = from_dlpack<Cpu>(to_dlpack(w));
  const bool same = back.to_vector<float>() == w.to_vector<float>();
  const bool kept = max(abs(half)).to(Dtype::f32).item<float>() > 0;
  return last < first && same && kept && w[-1][0].item<float>() == 1 && picked.extent(0) == 3 ? 0
                                                                                              : 1;
}
