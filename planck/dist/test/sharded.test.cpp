// Optimizers and checkpoints in parts: the bits of the whole.
#include "planck/dist/sharded.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "planck/dist/checkpoint.h"
#include "planck/dist/transport/threads.h"
#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

struct Net {
  nn::Linear<A> first, second, third;
  explicit Net(Rng rng)
      : first(rng, {7, 9}, kOne), second(rng, {9, 6}, kOne), third(rng, {6, 3}, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return third(tanh(second(tanh(first(x))))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("third", third);
  }
};
Tensor<A> input(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Rng rng{.seed = seed};
  return normal<A>(rng, {rows, columns}, 0, 1, Dtype::f32, kOne);
}
optim::ModelGradients<Cpu> gradients_of(Net& net, int step) {
  const auto x = input(4, 7, static_cast<std::uint64_t>(step));
  return optim::collect<A>(net, sum(square(net(x))).backward());
}

// Steps of the whole optimizer, on one worker.
template <class Optimizer, class Options>
std::string whole_run(const Options& options, int steps) {
  Net net(Rng{.seed = 2});
  Optimizer optimizer(options);
  for (int s = 0; s < steps; ++s) optimizer.step(net, gradients_of(net, s));
  auto all = nn::state(net);
  all.merge(nn::with_prefix("optimizer.", optimizer.state()));
  return nn::sha256_of(all);
}
template <class Optimizer, class Options>
std::string sharded_run(const Options& options, int steps, int workers, int then) {
  nn::StateDict model, state;
  const auto go = [&](int count, int from, int to) {
    nn::StateDict model_after, state_after;
    Threads::run(count, [&](Communicator& c) {
      Net net(Rng{.seed = 2});
      Sharded<A, Optimizer> optimizer(c, Optimizer(options));
      if (from > 0) {
        nn::load_state(net, model);
        optimizer.load_state(net, state, kOne);
      }
      for (int s = from; s < to; ++s) optimizer.step(net, gradients_of(net, s));
      EXPECT_EQ(difference(c, net), std::nullopt);
      const auto all = optimizer.state();
      if (count > 1) {
        EXPECT_LT(optimizer.own_state().size(), all.size());
      }
      if (c.rank() == 0) model_after = nn::state(net), state_after = all;
    });
    model = model_after, state = state_after;
  };
  go(workers, 0, steps / 2);
  go(then, steps / 2, steps);
  model.merge(nn::with_prefix("optimizer.", state));
  return nn::sha256_of(model);
}

TEST(Sharded, StepsLikeTheWholeOptimizerAndResumesOnOtherWorkers) {
  const optim::AdamOptions adam{.rate = 0.01, .weight_decay = 0.1};
  const optim::SgdOptions sgd{.rate = 0.01, .momentum = 0.9};
  const auto right = whole_run<optim::Adam<A>>(adam, 6);
  const auto right_sgd = whole_run<optim::Sgd<A>>(sgd, 6);
  for (const auto& [workers, then] : {std::pair{1, 3}, {2, 2}, {3, 1}, {4, 5}}) {
    EXPECT_EQ(sharded_run<optim::Adam<A>>(adam, 6, workers, then), right) << workers << then;
    EXPECT_EQ(sharded_run<optim::Sgd<A>>(sgd, 6, workers, then), right_sgd);
  }
}

TEST(Sharded, ClipsAndScalesLikeTheWholeOptimizer) {
  const auto run = [](Net& net, auto& adam) {
    optim::LossScale scale({.first = 1024, .interval = 2});
    std::vector<double> scales;
    for (int s = 0; s < 6; ++s) {
      const auto x = input(4, 7, static_cast<std::uint64_t>(s));
      auto found = optim::collect<A>(net, scale(sum(square(net(x)))).backward());
      if (s == 2) found.begin()->second = found.begin()->second * 1e38 * 1e38;  // left out
      if (s % 2 == 0)
        scale.step(adam, net, found, 0.5);
      else
        adam.step(net, found, optim::clip(found, 0.5, scale.value()));
      scales.push_back(scale.value());
    }
    return std::pair(nn::sha256_of(nn::state(net)), scales);
  };
  const optim::AdamOptions options{.rate = 0.01};
  Net whole(Rng{.seed = 2});
  optim::Adam<A> adam(options);
  const auto right = run(whole, adam);
  for (const int workers : {1, 2, 3})
    Threads::run(workers, [&](Communicator& c) {
      Net net(Rng{.seed = 2});
      Sharded<A, optim::Adam<A>> sharded(c, optim::Adam<A>(options));
      EXPECT_EQ(run(net, sharded), right) << workers;
    });
}

TEST(Sharded, GradientsOfAnotherModelAreNamed) {
  Threads::run(2, [](Communicator& c) {
    Net net(Rng{.seed = 2});
    Sharded<A, optim::Adam<A>> adam(c, optim::Adam<A>({.rate = 1e-2}));
    auto gradients = gradients_of(net, 0);
    gradients.emplace("fourth.weight", gradients.at("third.weight"));
    try {
      adam.step(net, gradients);
      ADD_FAILURE() << "it was taken";
    } catch (const Exception& e) {
      EXPECT_STREQ(
          e.what(),
          "sharded: there is a gradient of fourth.weight, the model has no such parameter");
    }
  });
}

TEST(Sharded, OwnersShareTheElements) {
  const auto owners = owners_of({{"a", 10}, {"b", 10}, {"c", 15}, {"d", 4}}, 2);
  EXPECT_EQ(owners.at("c"), 0);
  EXPECT_EQ(owners.at("a"), 1);
  EXPECT_EQ(owners.at("b"), 1);
  EXPECT_EQ(owners.at("d"), 0);
}

TEST(Checkpoint, InPartsIsReadByAnyNumberOfWorkers) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run.safetensors");
  const auto part = [](int rank, float value) {
    return nn::StateDict{
        {"own." + std::to_string(rank), nn::to_entry(Tensor<Cpu>::from({value}, {1}))},
        {"all", nn::to_entry(Tensor<Cpu>::from({7.f}, {1}))}};
  };
  for (const float value : {1.f, 2.f})  // the second replaces the first
    Threads::run(3, [&](Communicator& c) {
      save_in_parts(c, path, part(c.rank(), value), {{"run", "a"}});
    });
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 4u) << "parts of the first are gone";
  const auto read = value_or_throw(read_checkpoint(path));
  EXPECT_EQ(read.metadata, (SafetensorsMetadata{{"run", "a"}}));
  EXPECT_EQ(read.state.size(), 4u);
  EXPECT_EQ(read.state.at("own.2"), part(2, 2).at("own.2"));

  // A worker that fails before the list is written leaves the last checkpoint as it was.
  EXPECT_THROW(Threads::run(3,
                            [&](Communicator& c) {
                              if (c.rank() == 1) raise(ErrorCode::io, "no space left on device");
                              save_in_parts(c, path, part(c.rank(), 3), {{"run", "a"}});
                            }),
               Exception);
  EXPECT_EQ(value_or_throw(read_checkpoint(path)).state, read.state);

  // A part that is missing, or is not the one that was written, is refused.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().find(".1-of-3.") != std::string::npos)
      value_or_throw(nn::save_state(entry.path(), part(1, 9)));
  EXPECT_NE(read_checkpoint(path).error().message.find("is not the part"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().find(".1-of-3.") != std::string::npos)
      std::filesystem::remove(entry.path());
  EXPECT_FALSE(read_checkpoint(path));
  // A whole one is read, too.
  value_or_throw(nn::save_state(path, part(0, 1)));
  EXPECT_EQ(value_or_throw(read_checkpoint(path)).state, part(0, 1));
}

std::set<std::string> files_in(const TemporaryDirectory& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename().string());
  return names;
}
nn::StateDict numbered(const std::string& name, float value) {
  return {{name, nn::to_entry(Tensor<Cpu>::from({value}, {1}))}};
}

TEST(Checkpoint, PartsOfOtherCheckpointsStay) {
  const TemporaryDirectory folder;
  const auto save = [&](const std::string& name, float value) {
    Threads::run(2, [&](Communicator& c) {
      save_in_parts(c, folder.file(name), numbered(std::to_string(c.rank()), value));
    });
  };
  for (const char* name : {"model", "model.best", "model.0-of-2", "model.part"}) save(name, 1);
  const auto before = files_in(folder);
  EXPECT_EQ(before.size(), 12u);
  save("model", 1);  // the same parts once more
  EXPECT_EQ(files_in(folder), before);
  save("model", 2);
  EXPECT_EQ(files_in(folder).size(), 12u) << "two parts of before have gone";
  for (const char* name : {"model", "model.best", "model.0-of-2", "model.part"})
    EXPECT_EQ(value_or_throw(read_checkpoint(folder.file(name))).state.size(), 2u) << name;
}

TEST(Checkpoint, WhatKilledWorkersLeftIsRemoved) {
  const TemporaryDirectory folder;
  const std::string end = ".0123456789abcdef.part.fedcba9876543210.partial";
  const std::string killed = ".model.1-of-2" + end, being_written = ".model.0-of-2" + end,
                    others = ".model.best.0-of-2" + end, foreign = ".model.note.partial";
  for (const std::string& name : {killed, being_written, others, foreign})
    std::ofstream(folder.file(name)) << "half";
  const int file = open(folder.file(being_written).c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  Threads::run(2, [&](Communicator& c) {
    save_in_parts(c, folder.file("model"), numbered(std::to_string(c.rank()), 1));
  });
  close(file);
  const auto left = files_in(folder);
  EXPECT_FALSE(left.contains(killed));
  for (const std::string& name : {being_written, others, foreign})
    EXPECT_TRUE(left.contains(name)) << name;
}

TEST(Checkpoint, EntriesThatDifferAreRefusedBeforeAnythingIsWritten) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("model");
  const auto part = [](int rank, bool differs) {
    auto mine = numbered(std::to_string(rank), 1);
    mine.merge(numbered("shared", rank == 2 && differs ? 8.f : 7.f));
    return mine;
  };
  Threads::run(3, [&](Communicator& c) { save_in_parts(c, path, part(c.rank(), false)); });
  const auto before = files_in(folder);
  const auto good = value_or_throw(read_checkpoint(path)).state;
  std::atomic<int> refused{0};
  Threads::run(3, [&](Communicator& c) {
    try {
      save_in_parts(c, path, part(c.rank(), true));
    } catch (const Exception& e) {
      refused +=
          std::string(e.what()) == "save_in_parts: shared of worker 2 is not that of worker 0";
    }
  });
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(files_in(folder), before);
  EXPECT_EQ(value_or_throw(read_checkpoint(path)).state, good);
}

}  // namespace
}  // namespace planck::dist
