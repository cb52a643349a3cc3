// Scopes: work without a graph, the first NaN, and where the time goes.
#include <gtest/gtest.h>

#include <limits>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

TEST(NoGrad, MakesNoNode) {
  const auto x = Tensor<A>::from({1.f, 2.f}, {2}).require_grad();
  const auto nodes = Node<Cpu>::live();
  {
    const NoGrad scope;
    EXPECT_FALSE(grad_enabled());
    const auto y = exp(x) * x;
    EXPECT_FALSE(y.is_tracked());
    EXPECT_EQ(Node<Cpu>::live(), nodes);
    EXPECT_FALSE(checkpoint([](const Tensor<A>& t) { return t * t; }, x).is_tracked());
    const auto twice = Tensor<Autodiff<A>>(x).require_grad();
    EXPECT_FALSE((twice * twice).is_tracked());
    EXPECT_FALSE((twice * twice).inner().is_tracked()) << "no level records";
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE((x * x).is_tracked());
  EXPECT_EQ(no_grad([&] { return x * x; }).inner().to_vector<float>(), F({1, 4}));
  EXPECT_THROW(no_grad([]() -> int { raise(ErrorCode::io, "a scope ends with an exception too"); }),
               Exception);
  EXPECT_TRUE((x * x).is_tracked());
}

// A graph made outside can be differentiated inside; segments record what they need to.
TEST(NoGrad, DifferentiatesGraphsOfOutside) {
  const auto x = Tensor<A>::from({1.f, 2.f}, {2}).require_grad();
  const auto y = checkpoint([](const Tensor<A>& t) { return exp(t) * t; }, x);
  const auto z = exp(x) * x;
  const NoGrad scope;
  EXPECT_EQ(x.grad(y.backward())->to_vector<float>(), x.grad(z.backward())->to_vector<float>());
}

template <class B>
struct Deep {
  std::vector<nn::Linear<B>> layers;
  explicit Deep(Rng& rng) {
    for (int i = 0; i < 20; ++i) layers.emplace_back(rng, nn::LinearOptions{256, 256});
  }
  Tensor<B> operator()(Tensor<B> x) {
    for (auto& layer : layers) x = relu(layer(std::move(x)));
    return x;
  }
  void visit(auto&& part) { part("layers", layers); }
};

// Twenty layers of 256 on 1,024 rows: what evaluation takes beyond the model and its input.
TEST(NoGrad, EvaluatesInTheMemoryOfTheInnerBackend) {
  const auto peak = []<class B>(std::type_identity<B>, bool recorded) {
    Rng rng{.seed = 1};
    Deep<B> model(rng);
    nn::eval(model);
    const auto x = nn::constant<B>(normal<Cpu>(rng, {1024, 256}));
    const auto before = allocator_stats(Device::cpu()).in_use;
    reset_peak(Device::cpu());
    const autodiff_detail::Recording scope(recorded);
    const auto sum_of = sum(model(x));
    return std::pair{allocator_stats(Device::cpu()).peak - before,
                     nn::plain(sum_of).template item<float>()};
  };
  const auto inner = peak(std::type_identity<Cpu>{}, true);
  const auto silent = peak(std::type_identity<A>{}, false);
  const auto recorded = peak(std::type_identity<A>{}, true);
  RecordProperty("inner_bytes", std::to_string(inner.first));
  RecordProperty("recorded_bytes", std::to_string(recorded.first));
  EXPECT_EQ(silent.second, inner.second);
  EXPECT_LE(silent.first, inner.first + (1 << 10));
  EXPECT_GT(recorded.first, 4 * silent.first) << "what it costs to keep the graph";
}

TEST(Anomaly, NamesTheOpThatMadeTheFirstNaN) {
  const auto x = Tensor<Cpu>::from({1.f, -1.f, 4.f, 0.f}, {2, 2});
  (void)log(x);  // nobody looks
  const Anomaly watch;
  EXPECT_EQ(exp(x).to_vector<float>().size(), 4u);
  EXPECT_EQ(message([&] { (void)(log(x) * 2); }),
            "log: made the first NaN, at [0, 1] of its f32 result of shape [2, 2] (forward)");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto given = Tensor<Cpu>::from({1.f, nan}, {2});
  EXPECT_EQ(
      message([&] { (void)(given + 1); }),
      "add_scalar: the result f32 of shape [2] has a NaN at [1] (forward), which came in with "
      "input 0: no op that was watched made it");
  for (Dtype t : {Dtype::f64, Dtype::f16, Dtype::bf16})
    EXPECT_NE(
        message([&] { (void)sqrt(to_float(x, t)); }).find("sqrt: made the first NaN, at [0, 1]"),
        std::string::npos);
  // Strided results and inputs, and pieces put together.
  EXPECT_NE(message([&] { (void)sqrt(transpose(x)); }).find("at [1, 0]"), std::string::npos);
  EXPECT_NE(message([&] {
              (void)cat(std::vector{given, given}, 0);
            }).find("cat"),
            std::string::npos);
}

// √x at 0 is fine, and its gradient times 0 is not.
TEST(Anomaly, NamesTheGradient) {
  const auto x = Tensor<A>::from({4.f, 0.f}, {2}).require_grad();
  const Anomaly watch;
  const auto y = sum(sqrt(x) * Tensor<A>::from({1.f, 0.f}, {2}));
  const std::string said = message([&] { (void)y.backward(); });
  EXPECT_NE(said.find("made the first NaN, at [1]"), std::string::npos) << said;
  EXPECT_NE(said.find("(the gradient of sqrt)"), std::string::npos) << said;
}

// A step is an op like others: what it read and wrote, and whether it made the first NaN.
struct Stepped {
  nn::Parameter<A> w{ones<Cpu>({2, 3})}, table{ones<Cpu>({10, 4})};
  optim::ModelGradients<Cpu> gradients(float first = 1) const {
    optim::ModelGradients<Cpu> g;
    g.emplace("w", Tensor<Cpu>::from({1.f, first, 1.f, 1.f, 1.f, 1.f}, {2, 3}));
    g.rows.emplace("table", RowGradient<Cpu>{Tensor<Cpu, IntKind>::from<std::int64_t>({2, 5}, {2}),
                                             ones<Cpu>({2, 4}), 10});
    return g;
  }
  void visit(auto&& part) {
    part("w", w);
    part("table", table);
  }
};

TEST(Profile, SeesOptimizersSteps) {
  const auto bytes = [](auto optimizer, std::string_view name) {
    Stepped model;
    auto g = model.gradients();
    if (name == "muon") g.rows.clear();
    const Profile profile;
    optimizer.step(model, g);
    for (const auto& row : profile.rows())
      if (row.op == name) return std::pair{row.bytes_read, row.bytes_written};
    ADD_FAILURE() << profile.table();
    return std::pair<std::size_t, std::size_t>{};
  };
  using Bytes = std::pair<std::size_t, std::size_t>;
  const std::size_t w = 24, rows = 32, table = 160;
  EXPECT_EQ(bytes(optim::Sgd<A>({.rate = 0.1}), "sgd"), Bytes(2 * (w + rows), w + rows));
  EXPECT_EQ(bytes(optim::Adam<A>({.rate = 0.1, .lazy = true}), "adam"),
            Bytes(4 * (w + rows), 3 * (w + rows)));
  EXPECT_EQ(bytes(optim::Lamb<A>({.rate = 0.1}), "lamb"), Bytes(4 * (w + table), 3 * (w + table)));
  EXPECT_EQ(bytes(optim::Muon<A>({.rate = 0.1}), "muon"), Bytes(2 * w, w))
      << "the direction is that of ops before it";
}

TEST(Anomaly, SeesOptimizersSteps) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto says = [](float first) {
    Stepped model;
    const auto g = model.gradients(first);
    optim::Adam<A> adam({.rate = 0.1, .lazy = true});
    adam.step(model, model.gradients());
    const auto weights = nn::state(model), slots = adam.state();
    const Anomaly watch;
    const std::string said = message([&] { adam.step(model, g); });
    if (said != "nothing was thrown") {
      EXPECT_EQ(nn::state(model), weights);
      EXPECT_EQ(adam.state(), slots);
    }
    return said;
  };
  EXPECT_EQ(says(1), "nothing was thrown");
  EXPECT_EQ(says(inf),
            "adam: made the first NaN, at [0, 1] of its f32 result of shape [2, 3] (forward)");
  EXPECT_EQ(says(std::numeric_limits<float>::quiet_NaN()),
            "adam: the result f32 of shape [2, 3] has a NaN at [0, 1] (forward), which came in "
            "with input 0: no op that was watched made it");
}

TEST(Profile, CountsTimeAndBytes) {
  const auto x = Tensor<A>::from({1.f, 2.f, 3.f, 4.f}, {2, 2}).require_grad();
  std::size_t events = 0;
  {
    Profile profile;
    const auto grads = sum(exp(x) * x).backward();
    for (const auto& row : profile.rows()) {
      EXPECT_GT(row.calls, 0u);
      EXPECT_GT(row.microseconds, 0);
    }
    const auto find = [&](std::string_view op, std::string_view gradient_of) {
      for (const auto& row : profile.rows())
        if (row.op == op && row.gradient_of == gradient_of) return row;
      ADD_FAILURE() << op << " in the gradient of " << gradient_of << " is missing\n"
                    << profile.table();
      return Profile::Row{};
    };
    EXPECT_EQ(find("exp", "").calls, 1u);
    EXPECT_EQ(find("exp", "").bytes_read, 16u);
    EXPECT_EQ(find("exp", "").bytes_written, 16u);
    EXPECT_EQ(find("mul", "").bytes_read, 32u);
    EXPECT_EQ(find("mul", "mul").calls, 2u);
    EXPECT_EQ(find("mul", "exp").calls, 1u);
    const std::string table = profile.table();
    EXPECT_NE(table.find("gradient of mul"), std::string::npos) << table;
    events = profile.events().size();

    const TemporaryDirectory folder;
    profile.save_trace(folder.file("step.json"));
    const std::string text = folder.contents("step.json");
    EXPECT_EQ(text, profile.trace());
    EXPECT_EQ(text.find("{\"displayTimeUnit\": \"ms\", \"traceEvents\": ["), 0u) << text;
    EXPECT_NE(text.find("\"name\": \"exp\", \"cat\": \"forward\", \"ph\": \"X\""),
              std::string::npos);
    EXPECT_THROW(profile.save_trace("/nowhere/step.json"), Exception);
  }
  EXPECT_GT(events, 4u);
  EXPECT_FALSE(Observer::any());
}

}  // namespace

}  // namespace planck::test
