// examples/07_gpt, small: one hash for any number of threads and workers, for a run that was
// interrupted and for one that keeps less, in f32 and in 16 bits; text that is written with a cache
// is that written without; and a run that went wrong leaves its checkpoint alone.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "examples/07_gpt/run.h"
#include "planck/core/allocator.h"
#include "planck/dist/transport/threads.h"
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
INSTANTIATE_TEST_SUITE_P(Dtypes, Gpt,
                         testing::Values(Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST_P(Gpt, HasOneHash) {
  const auto trained = [](int threads, int interrupted_at, bool recompute = false) {
    auto how = options(GetParam());
    how.recompute = recompute;
    auto run = std::make_unique<gpt::Run<A>>(how, text(), Stream::cpu(threads));
    TemporaryDirectory folder;
    double first = 0, last = 0;
    while (run->step_count() < 12) {
      if (run->step_count() == interrupted_at) {
        run->save(folder.file("run"));
        run = std::make_unique<gpt::Run<A>>(how, text(), Stream::cpu(threads));
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
  EXPECT_EQ(trained(2, -1, true), hash) << "with blocks that are computed again";
}

TEST_P(Gpt, HasOneHashForAnyNumberOfWorkers) {
  auto how = options(GetParam());
  how.steps = 4;
  how.grains = 3;
  how.batch = 7;
  std::string hash;
  for (const int count : {1, 2, 3}) {
    std::vector<std::string> hashes(static_cast<std::size_t>(count));
    dist::Threads::run(count, [&](dist::Communicator& workers) {
      gpt::Run<A> run(how, text(), Stream::cpu(1), &workers);
      while (run.step_count() < how.steps) (void)run.step();
      EXPECT_LT(run.loss(), 5);
      hashes[static_cast<std::size_t>(workers.rank())] = run.hash();
    });
    if (hash.empty()) hash = hashes[0];
    for (const std::string& h : hashes) EXPECT_EQ(h, hash) << count << " workers";
  }
}

TEST(GptRun, NeedsLessMemoryWhereBlocksAreComputedAgain) {
  const auto peak = [](bool recompute) {
    auto how = options(Dtype::f32);
    how.size.blocks = 6;
    how.batch = 8;
    how.recompute = recompute;
    gpt::Run<A> run(how, text(), Stream::cpu(1));
    (void)run.step();
    reset_peak(Device::cpu());
    (void)run.step();
    return allocator_stats(Device::cpu()).peak;
  };
  const auto whole = peak(false), less = peak(true);
  EXPECT_LT(less, whole * 2 / 3);
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
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  gpt::Run<A> cpu(options(GetParam()), text(), Cpu::default_device());
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    gpt::Run<Autodiff<B>> cuda(options(GetParam()), text(), B::default_device());
    for (int i = 0; i < 4; ++i) {
      const auto a = nn::to_entry(cpu.step()), b = nn::to_entry(cuda.step());
      EXPECT_EQ(a, b) << "loss of step " << i;
    }
    EXPECT_EQ(cuda.hash(), cpu.hash());
  });
}

TEST(GptRun, RefusesWhatItCannotGoOnFrom) {
  TemporaryDirectory folder;
  gpt::Run<A> run(options(Dtype::f32), text(), Stream::cpu(1));
  run.save(folder.file("run"));
  auto other = options(Dtype::f32);
  other.batch = 4;
  gpt::Run<A> different(other, text(), Stream::cpu(1));
  EXPECT_NE(message([&] {
              different.resume(folder.file("run"));
            }).find("is of a run with f32 chain vocabulary 96 width 24 heads 2 blocks 2 batch 3"),
            std::string::npos);
  // Other texts of the same length, rates that differ in a late digit, other products.
  const auto goes_on = [&](const gpt::RunOptions& how, const std::string& of, const Stream& on) {
    gpt::Run<A> again(how, of, on);
    return message([&] { again.resume(folder.file("run")); }) == "nothing was thrown";
  };
  auto how = options(Dtype::f32);
  std::string changed = text();
  changed[7] = 'X';
  EXPECT_TRUE(goes_on(how, text(), Stream::cpu(2)));
  EXPECT_FALSE(goes_on(how, changed, Stream::cpu(1)));
  EXPECT_FALSE(goes_on(how, text(), Stream::cpu(1).with_math(ProductMath::exact)));
  how.rate = 1e-7;
  gpt::Run<A> slow(how, text(), Stream::cpu(1));
  slow.save(folder.file("run"));
  EXPECT_TRUE(goes_on(how, text(), Stream::cpu(1)));
  how.rate = 2e-7;
  EXPECT_FALSE(goes_on(how, text(), Stream::cpu(1)));
  how.rate = std::nextafter(1e-7, 1.0);
  EXPECT_FALSE(goes_on(how, text(), Stream::cpu(1)));
  EXPECT_EQ(message([&] { gpt::Run<A>(options(Dtype::f32), "short", Stream::cpu(1)); }),
            "gpt: the text has 5 bytes, sequences of 20 need 21");
}

TEST(GptRun, SavesNothingAfterItWentWrong) {
  TemporaryDirectory folder;
  const std::string path = folder.file("run");
  const auto bytes = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  gpt::Run<A> run(options(Dtype::f32), text(), Stream::cpu(1));
  (void)run.step();
  run.save(path);
  const std::string good = bytes();
  ASSERT_FALSE(good.empty());
  auto& bias = run.model().last.bias;
  const auto before = bias.value();
  bias.set(full_like(before, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(message([&] { run.save(path); }),
            "gpt: last.bias is not finite after step 1; " + path + " stays as it was");
  const std::string step = message([&] { (void)run.step(); });
  EXPECT_EQ(step.substr(0, step.find(" at byte")),
            "gpt: the loss of step 2 is nan: last.bias is not finite; sample 0, which begins");
  EXPECT_EQ(run.step_count(), 1);
  EXPECT_EQ(bytes(), good);
  // Nothing was changed: with the weight as it was, the run goes on.
  bias.set(before);
  run.save(path);
  EXPECT_EQ(bytes(), good);
}

// On a GPU, where the host looks at losses later.
TEST_P(Gpt, NamesTheSampleThatBrokeItOnCuda) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    gpt::Run<Autodiff<B>> run(options(GetParam()), text(), B::default_device());
    for (int i = 0; i < 3; ++i) (void)run.step();
    EXPECT_EQ(run.why_not_recorded(), "");
    (void)run.loss();
    auto& places = run.model().places.weight;
    auto values = places.value().to(Dtype::f32).template to_vector<float>();
    values[5 * 24 + 1] = std::numeric_limits<float>::quiet_NaN();
    places.set(Tensor<B>::from(std::span<const float>(values), {20, 24}).to(GetParam()));
    const std::string hash = run.hash();
    const std::string line = message([&] {
      for (int i = 0; i < 3; ++i) (void)run.step();
      (void)run.loss();
    });
    EXPECT_EQ(run.hash(), hash) << "nothing was stepped";
    EXPECT_TRUE(
        line.starts_with("gpt: the loss of step 4 is nan: places.weight is not finite; "
                         "sample 0, which begins at byte "))
        << line;
    EXPECT_TRUE(line.ends_with(" of the text, has nan at its token 5")) << line;
  });
}

// The first step whose loss is no number ends the run, with the sample and the place in it.
TEST_P(Gpt, NamesTheSampleThatBrokeIt) {
  std::string first;
  for (const int grains : {1, 3}) {
    auto how = options(GetParam());
    how.grains = grains;
    gpt::Run<A> run(how, text(), Stream::cpu(2));
    (void)run.step();
    auto& places = run.model().places.weight;
    auto values = places.value().to(Dtype::f32).to_vector<float>();
    values[5 * 24 + 1] = std::numeric_limits<float>::quiet_NaN();
    places.set(Tensor<Cpu>::from(std::span<const float>(values), {20, 24}).to(GetParam()));
    const std::string hash = run.hash();
    const std::string line = message([&] { (void)run.step(); });
    EXPECT_EQ(run.hash(), hash) << "nothing was stepped";
    EXPECT_TRUE(
        line.starts_with("gpt: the loss of step 2 is nan: places.weight is not finite; "
                         "sample 0, which begins at byte "))
        << line;
    EXPECT_TRUE(line.ends_with(" of the text, has nan at its token 5")) << line;
    if (grains == 1) first = line;
    EXPECT_EQ(line, first);
  }
}

TEST(GptText, SaysHowManyBytesItHasNoTokenFor) {
  const std::string text = "na\xc3\xafve\tr\xc3\xb4le\n";
  const gpt::Tokens ascii(96), all(512);
  EXPECT_EQ(ascii.replaced(text), 5);
  EXPECT_EQ(ascii.decoded(ascii.encoded(text)), "na??ve r??le\n");
  EXPECT_EQ(all.replaced(text), 0);
  EXPECT_EQ(all.decoded(all.encoded(text)), text);
}

}  // namespace

}  // namespace planck::test
