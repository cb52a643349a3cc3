// Training is a function of its seed: the same bits on 1, 2 and 5 threads, with and without
// checkpointing, and on CUDA.
#include "tests/autodiff/training.h"

#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

template <class F>
void check(const char* name, const F& train) {
  SCOPED_TRACE(name);
  using Plain = Autodiff<Cpu>;
  const Trained one = train(std::type_identity<Plain>{}, Stream::cpu(1));
  EXPECT_LT(one.last_loss, one.first_loss * 0.5f) << "it did not learn";
  EXPECT_EQ(train(std::type_identity<Plain>{}, Stream::cpu(2)), one);
  EXPECT_EQ(train(std::type_identity<Plain>{}, Stream::cpu(5)), one);
  EXPECT_EQ((train(std::type_identity<Autodiff<Cpu, BalancedCheckpointing>>{}, Stream::cpu(2))),
            one);
  if constexpr (std::same_as<TestedBackend, Cuda>) {
    EXPECT_EQ(train(std::type_identity<Autodiff<Cuda>>{}, Cuda::default_device()), one);
  }
  std::printf("%s: weights %016llx, loss %.6f to %.6f\n", name,
              static_cast<unsigned long long>(one.digest), static_cast<double>(one.first_loss),
              static_cast<double>(one.last_loss));
}

using Training = Gradients;

TEST_F(Training, OfAnMlpWithQuantization) {
  check("mlp", [](auto a, const Stream& s) { return train_mlp<typename decltype(a)::type>(s); });
}
TEST_F(Training, OfASpatialTransformer) {
  check("spatial transformer",
        [](auto a, const Stream& s) { return train_transformer<typename decltype(a)::type>(s); });
}
TEST_F(Training, OfAnEmbeddingClassifier) {
  check("embedding classifier",
        [](auto a, const Stream& s) { return train_classifier<typename decltype(a)::type>(s); });
}

// What recomputing saves: a deep MLP keeps one tensor per layer instead of two.
TEST_F(Training, BalancedCheckpointingKeepsLess) {
  const auto peak = []<class A>(std::type_identity<A>) {
    const auto before = allocator_stats(Device::cpu()).in_use;
    Rng rng{.seed = 4};
    const auto w = normal<Cpu>(rng, {64, 64}, 0, 0.1);
    const auto weight = Tensor<A>(A::from_inner(w.primitive())).require_grad();
    const auto bias = Tensor<A>(A::from_inner(zeros<Cpu>({64}).primitive())).require_grad();
    auto x = Tensor<A>(A::from_inner(normal<Cpu>(rng, {2048, 64}).primitive()));
    reset_peak(Device::cpu());
    std::vector<float> gradient;
    {
      for (int layer = 0; layer < 48; ++layer) x = gelu(matmul(x, weight) + bias);
      const auto grads = mean(x).backward();
      gradient = weight.grad(grads)->template to_vector<float>();
    }
    return std::pair{allocator_stats(Device::cpu()).peak - before, gradient};
  };
  const auto [all, g1] = peak(std::type_identity<Autodiff<Cpu>>{});
  const auto [less, g2] = peak(std::type_identity<Autodiff<Cpu, BalancedCheckpointing>>{});
  EXPECT_EQ(g1, g2);
  EXPECT_LE(static_cast<double>(less), 0.6 * static_cast<double>(all))
      << less << " bytes against " << all;
}

TEST_F(Training, LeavesNothingBehind) {
  const auto nodes = Node<Cpu>::live();
  const auto bytes = allocator_stats(Device::cpu()).in_use;
  (void)train_mlp<Autodiff<Cpu>>(Stream::cpu(1));
  EXPECT_EQ(Node<Cpu>::live(), nodes);
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, bytes);
}

}  // namespace

}  // namespace planck::test
