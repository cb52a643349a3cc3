// Fits y = tanh(x w1) w2 to a sine by gradient descent, and prints the second derivative of a cube.
#include <cstdio>
#include <iostream>

#include "planck/planck.h"

using namespace planck;

int main() {
  using B = Cpu;          // or Cuda: the printed weights have the same bits
  using A = Autodiff<B>;  // B, made differentiable

  Rng rng{.seed = 7};
  const Tensor<B> x = uniform<B>(rng, {256, 1}, -3, 3);
  const Tensor<B> target = sin(x);
  Tensor<B> w1 = normal<B>(rng, {1, 16}), b1 = normal<B>(rng, {16}),
            w2 = normal<B>(rng, {16, 1}, 0, 0.3);

  for (int step = 0; step <= 400; ++step) {
    // Leaves: tensors whose gradients are wanted.
    const auto leaf = [](const Tensor<B>& t) {
      return Tensor<A>(A::from_inner(t.primitive())).require_grad();
    };
    const auto p = leaf(w1), q = leaf(b1), r = leaf(w2);

    const auto y = matmul(tanh(matmul(Tensor<A>(A::from_inner(x.primitive())), p) + q), r);
    const auto loss = mean(square(y - Tensor<A>(A::from_inner(target.primitive()))));
    if (step % 100 == 0)
      std::printf("step %3d  loss %.6f\n", step, static_cast<double>(loss.inner().item<float>()));

    const auto grads = loss.backward();  // a value of its own; the graph is already free
    w1 = w1 - *p.grad(grads) * 0.05;
    b1 = b1 - *q.grad(grads) * 0.05;
    w2 = w2 - *r.grad(grads) * 0.05;
  }
  std::cout << "w2 = " << transpose(w2) << "\n";

  // Derivatives of derivatives: the same decorator, twice.
  using AA = Autodiff<A>;
  const auto inner = Tensor<A>::from({1.0f, 2.0f, 3.0f}, {3}).require_grad();
  const auto outer = Tensor<AA>(AA::from_inner(inner.primitive())).require_grad();
  const auto first = *outer.grad(sum(outer * outer * outer).backward());  // 3 x², tracked by A
  std::cout << "second derivative of x^3 at 1, 2, 3: " << *inner.grad(sum(first).backward())
            << "\n";
}
