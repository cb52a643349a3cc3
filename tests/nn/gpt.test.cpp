// examples/07_gpt, small: one hash for any number of threads and for a run that was interrupted, in
// f32 and in bf16; and text that is written with a cache is that written without.
#include <gtest/gtest.h>

#include <cmath>

#include "examples/07_gpt/run.h"
#include "planck/io/test/temporary_directory.test.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

std::string text() {
  std::string all;
  for (int i = 0; i < 40; ++i) all += "the cat sat on mat " + std::to_string(i * i) + ";\n";
  return all;
}
gpt::RunOptions options(Dtype dtype) {
  return {
      .size = {96, 24, 2, 2}, .batch = 3, .length = 20, .steps = 12, .rate = 1e-2, .dtype = dtype};
}

class Gpt : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Gpt, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f16),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST_P(Gpt, HasOneHash) {
  const auto trained = [](int threads, int interrupted_at) {
    auto run = std::make_unique<gpt::Run<A>>(options(GetParam()), text(), Stream::cpu(threads));
    TemporaryDirectory folder;
    double first = 0, last = 0;
    while (run->step_count() < 12) {
      if (run->step_count() == interrupted_at) {
        run->save(folder.file("run"));
        run = std::make_unique<gpt::Run<A>>(options(GetParam()), text(), Stream::cpu(threads));
        run->resume(folder.file("run"));
        interrupted_at = -1;
      }
      last = static_cast<double>(run->step().item<float>());
      if (run->step_count() == 1) first = last;
    }
    EXPECT_NEAR(first, std::log(96.0), 0.2);
    EXPECT_LT(last, first - 0.2) << "it learns";
    return run->hash();
  };
  const std::string hash = trained(1, -1);
  EXPECT_EQ(trained(3, -1), hash);
  EXPECT_EQ(trained(2, 5), hash) << "interrupted";
}

TEST_P(Gpt, WritesTheSameWithAndWithoutACache) {
  gpt::Run<A> run(options(GetParam()), text(), Stream::cpu(2));
  for (int i = 0; i < 3; ++i) (void)run.step();
  const NoGrad no_graph;
  const gpt::Tokens tokens(96);
  for (const double temperature : {0.0, 1.0}) {
    // 50 tokens: past the end of the context, twice.
    const auto cached = gpt::sample(run.model(), tokens.encoded("the c"),
                                    {.count = 50, .temperature = temperature});
    const auto whole = gpt::sample(run.model(), tokens.encoded("the c"),
                                   {.count = 50, .temperature = temperature, .cached = false});
    EXPECT_EQ(cached, whole) << "temperature " << temperature;
    EXPECT_EQ(tokens.decoded(cached).substr(0, 5), "the c");
  }
  // Not the likeliest token alone: the logits themselves.
  auto cache = run.model().empty_cache();
  const auto ids = Tensor<A, IntKind>::from(tokens.encoded("the cat sat"), {1, 11});
  const auto whole = run.model()(ids);
  for (std::int64_t i = 0; i < 11; ++i) {
    const auto one = run.model()(slice(ids, 1, i, i + 1), &cache);
    EXPECT_EQ(nn::to_entry(one.inner()), nn::to_entry(slice(whole, 1, i, i + 1).inner())) << i;
  }
}

TEST_P(Gpt, OnCudaAsOnTheCpu) {
  if (!Stream::on({DeviceKind::cuda, 0})) GTEST_SKIP() << "no CUDA device";
  gpt::Run<A> cpu(options(GetParam()), text(), Cpu::default_device());
  gpt::Run<Autodiff<Cuda>> cuda(options(GetParam()), text(), Cuda::default_device());
  for (int i = 0; i < 4; ++i) {
    const auto a = nn::to_entry(cpu.step()), b = nn::to_entry(cuda.step());
    EXPECT_EQ(a, b) << "loss of step " << i;
  }
  EXPECT_EQ(cuda.hash(), cpu.hash());
}

TEST(GptRun, RefusesWhatItCannotGoOnFrom) {
  TemporaryDirectory folder;
  gpt::Run<A> run(options(Dtype::f32), text(), Stream::cpu(1));
  run.save(folder.file("run"));
  auto other = options(Dtype::f32);
  other.batch = 4;
  gpt::Run<A> different(other, text(), Stream::cpu(1));
  EXPECT_NE(
      message([&] { different.resume(folder.file("run")); }).find("is of a run with f32 96 24"),
      std::string::npos);
  EXPECT_EQ(message([&] { gpt::Run<A>(options(Dtype::f32), "short", Stream::cpu(1)); }),
            "gpt: the text has 5 bytes, sequences of 20 need 21");
}

}  // namespace

}  // namespace planck::test
