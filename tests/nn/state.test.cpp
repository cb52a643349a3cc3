// Loading: whole or not at all, by parts, renamed, cast; files.
#include <gtest/gtest.h>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using Names = std::vector<std::string>;

struct Net {
  nn::Linear<A> first;
  nn::BatchNorm<A> norm{3};
  nn::Dropout drop{0.5, 7};
  nn::Linear<A> last;
  explicit Net(Rng& rng) : first(rng, {4, 3}), last(rng, {3, 2}) {}
  void visit(auto&& part) {
    part("first", first);
    part("norm", norm);
    part("drop", drop);
    part("last", last);
  }
};

TEST(State, ALoadThatIsRefusedChangesNothing) {
  Rng rng{.seed = 1};
  Net from(rng), to(rng);
  from.drop.rng.offset = 12;
  const auto before = nn::state(to);
  const auto good = nn::state(from);
  const auto refused = [&](const auto& spoil) {
    auto state = good;
    spoil(state);
    const std::string text = message([&] { nn::load_state(to, state); });
    EXPECT_EQ(nn::state(to), before);
    return text;
  };
  EXPECT_EQ(refused([](auto& s) { s.erase("last.weight"); }),
            "load_state: the state lacks last.weight");
  EXPECT_EQ(refused([](auto& s) { s["last.bias"] = s["first.bias"]; }),
            "load_state: last.bias is f32 [3] in the state, f32 [2] in the model");
  EXPECT_EQ(refused([](auto& s) { s["zzz"] = s["last.bias"]; }),
            "load_state: the state has zzz, the model has no such part");
  EXPECT_EQ(refused([](auto& s) { s["drop.rng"] = s["last.bias"]; }),
            "load_state: drop.rng is f32 [2] in the state, i64 [2] in the model");
  nn::load_state(to, good);
  EXPECT_EQ(nn::state(to), good);
}

TEST(State, PartsOfIt) {
  Rng rng{.seed = 1};
  Net from(rng), to(rng);
  auto state = nn::state(from);
  state.erase("last.weight");
  state.erase("last.bias");
  state["other.weight"] = state["first.bias"];
  const auto untouched = nn::state(to).at("last.weight");
  const auto loaded = nn::load_state(to, state, {.partial = true});
  EXPECT_EQ(loaded.missing, (Names{"last.weight", "last.bias"}));
  EXPECT_EQ(loaded.unused, (Names{"other.weight"}));
  EXPECT_EQ(nn::state(to).at("first.weight"), nn::state(from).at("first.weight"));
  EXPECT_EQ(nn::state(to).at("last.weight"), untouched);
  // Shapes must fit all the same.
  state["first.bias"] = nn::state(from).at("last.weight");
  EXPECT_EQ(message([&] { nn::load_state(to, state, {.partial = true}); }),
            "load_state: first.bias is f32 [2, 3] in the state, f32 [3] in the model");
}

TEST(State, RenamedAndCast) {
  Rng rng{.seed = 1};
  Net from(rng), to(rng);
  nn::StateDict state;
  for (auto& [name, e] : nn::state(from)) {
    const auto wide = [](const nn::StateEntry& of) {
      const auto t = nn::to_tensor<Cpu, FloatKind>(of, Cpu::default_device());
      return nn::to_entry(to_float(t, Dtype::f64));
    };
    state["model." + name] = e.dtype == Dtype::f32 ? wide(e) : e;
  }
  state["optimizer.step"] = nn::entry_of(std::vector<double>{1});
  const auto rename = [](const std::string& name) {
    return name.starts_with("model.") ? name.substr(6) : std::string();
  };
  EXPECT_EQ(message([&] { nn::load_state(to, state, {.rename = rename}); }),
            "load_state: first.weight is f64 [3, 4] in the state, f32 [3, 4] in the model");
  const auto loaded = nn::load_state(to, state, {.cast = true, .rename = rename});
  EXPECT_TRUE(loaded.missing.empty() && loaded.unused.empty());
  EXPECT_EQ(nn::state(to), nn::state(from));
  EXPECT_EQ(message([&] {
              nn::load_state(to, state, {.rename = [](const std::string&) { return "x"; }});
            }),
            "load_state: two entries of the state become x");
}

TEST(State, AFileInOneCall) {
  Rng rng{.seed = 1};
  Net from(rng), to(rng);
  TemporaryDirectory folder;
  const std::string path = folder.file("net.safetensors");
  nn::save(from, path, {{"who", "me"}});
  nn::load(to, path);
  EXPECT_EQ(nn::state(to), nn::state(from));
  EXPECT_NE(message([&] { nn::load(to, folder.file("none")); }), "nothing was thrown");
}

struct Drops {
  nn::Dropout a{0.5, 1}, b{0.5, 2};
  void visit(auto&& part) {
    part("a", a);
    part("b", b);
  }
};

// A state that has some generators of the model must have all of them.
TEST(State, GeneratorsAreNotForgotten) {
  Drops net;
  auto state = nn::state(net);
  state.erase("b.rng");
  EXPECT_EQ(message([&] { nn::load_state(net, state); }), "load_state: the state lacks b.rng");
  EXPECT_EQ(nn::load_state(net, {}).missing, (Names{"a.rng", "b.rng"}));
}

}  // namespace

}  // namespace planck::test
