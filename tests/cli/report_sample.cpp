// Pages with made-up figures, for tests and for the eye:  report_sample full|small|empty|hostile
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "planck/data/digits.h"
#include "planck/math/random.h"
#include "tools/planck/report/report.h"

namespace planck::cli {

namespace {

float normal(std::uint64_t stream, std::uint64_t i) {
  return RandomBlock<float>::normal(PhiloxStream{1, stream}.words(i)).v[0];
}

TrainingReport full_report() {
  TrainingReport r;
  r.title = "Handwritten digits";
  r.device =
      "Spatial transformer and convolutions · 1,437 images, 30 epochs · cpu, 2 threads · 41 s";
  r.weights_sha256 = "9f578524b6cec1fc800cc52dfc87ebe56264983d490aa72a4bd928ba2570ec77";
  const char* names[] = {"with transformer", "without", "quantization-aware, s8"};
  for (int c = 0; c < 3; ++c) {
    TrainingReport::Curve curve{names[c], {}, {}};
    for (int e = 0; e < 30; ++e) {
      const auto at = static_cast<float>(e);
      const float noise = normal(static_cast<std::uint64_t>(c), static_cast<std::uint64_t>(e));
      const float floor = c == 0 ? 0.02f : c == 1 ? 0.09f : 0.035f;
      curve.loss.push_back((floor + 2.2f * std::exp(-at / 3.1f)) * (1 + 0.06f * noise));
      curve.accuracy.push_back(1 - floor / 2 - 0.85f * std::exp(-at / 2.4f) + 0.003f * noise);
    }
    r.curves.push_back(curve);
  }
  r.models = {{"f32", 0.9889, 0.9712, 0.9958, 167'432, 12.41, ""},
              {"s8, per channel", 0.9861, 0.9680, 0.9941, 44'120, 9.38, "+2 -3"},
              {"s4, per group of 32", 0.9694, 0.9462, 0.9828, 24'520, 9.87, "+1 -8"}};
  r.findings = {"s8 differs from f32 by less than the error.", "s4 does not."};
  r.confusions = {{"f32", 10, std::vector<std::int64_t>(100)}, {"s8", 2, {17, 3, 1, 19}}};
  for (std::size_t i = 0; i < 10; ++i) r.confusions[0].counts[11 * i] = 36;
  r.confusions[0].counts[9 * 10 + 5] = 7;
  r.confusions[0].counts[8 * 10 + 1] = 2;
  r.misread = "2 of 360 images are misread";
  r.facts = {{"Command", "planck demo --epochs 30"}, {"CPU", "a CPU, cores: 2, avx2"}};
  if (const auto digits = load_digits())
    for (int i = 0; i < 12; ++i) {
      TrainingReport::Pair pair{8, 8, std::vector<float>(64), {}, 0, 0, ""};
      const auto first = digits->pixels.begin() + 64 * (7 * i + 3);
      pair.after.assign(first, first + 64);
      for (std::size_t y = 0; y < 8; ++y)  // leaning
        for (std::size_t x = 0; x < 8; ++x)
          if (const std::size_t from = x + y / 3; from < 8)
            pair.before[8 * y + x] = pair.after[8 * y + from];
      pair.label = pair.predicted = digits->labels[static_cast<std::size_t>(7 * i + 3)];
      if (i % 5 == 4) {
        pair.predicted = (pair.label + 5) % 10;
        pair.note = "s8: the same";
      }
      (i % 5 == 4 ? r.mistakes : r.examples).push_back(pair);
    }
  for (int h = 0; h < 3; ++h) {
    const char* layers[] = {"localization.weight", "convolution.weight", "classifier.weight"};
    TrainingReport::Histogram histogram{layers[h], {}, {}};
    for (std::uint64_t i = 0; i < 6000; ++i) {
      const float w =
          0.08f * static_cast<float>(h + 1) * normal(9 + static_cast<std::uint64_t>(h), i);
      const float step = 0.03f * static_cast<float>(h + 1);
      histogram.before.push_back(w);
      histogram.after.push_back(std::rint(w / step) * step);
    }
    r.weights.push_back(histogram);
  }
  return r;
}

// One of everything, at its smallest.
TrainingReport small_report() {
  return {"One",
          "",
          "",
          {{"a", {1.0f}, {}}, {"b", {}, {0.5f}}},
          {{"m", 1, 1, 1, 0, 0, ""}},
          {},
          {{"m", 1, {5}}},
          {{1, 1, {1}, {}, 3, 3, ""}},
          {{1, 1, {1}, {}, 3, 4, ""}},
          "",
          {{"zeros", {0}, {}}},
          {{"Date", "today"}}};
}

// What no one should draw, and texts that are not theirs.
TrainingReport hostile_report() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const std::string text = "<script>alert('x')</script>&\"\x01\xff\xc3 ]]> é";
  TrainingReport r;
  r.title = r.device = r.weights_sha256 = r.misread = text;
  for (int i = 0; i < 9; ++i)
    r.curves.push_back({text, {kNan, 1e-30f, kInf, 1e30f, -1}, {kNan, -kInf, 0.5f}});
  r.curves.push_back({text, {}, {}});
  r.models = {{text, 0.5, 0.4, kInf, 0, kInf, text},
              {text, -1, 1, -2, ~std::uint64_t{0}, kNan, text},
              {text, kNan, kNan, kInf, 1, 0, text}};
  r.findings = {text, text};
  r.confusions = {{text, 2, {1, -1, 5, 0}},
                  {text, 2, {1}},
                  {text, -1, {}},
                  {text, 1'000, std::vector<std::int64_t>(1'000'000, 1)}};
  r.examples = {{-3, 0, {}, {kNan, 7, -1}, -5, 12, text}};
  r.mistakes = {{1'000'000'000, 1'000'000'000, {1}, {1}, 1, 1, text}};
  r.facts = {{text, text}};
  r.weights = {{text, {kNan, kInf}, {}}, {text, {1e38f, -1e38f}, {kNan, 0}}, {text, {}, {}}};
  return r;
}

}  // namespace

}  // namespace planck::cli

int main(int count, char** words) {
  using namespace planck::cli;
  const std::string_view which = count > 1 ? words[1] : "full";
  const std::string page = report_html(which == "empty"     ? TrainingReport{}
                                       : which == "small"   ? small_report()
                                       : which == "hostile" ? hostile_report()
                                                            : full_report());
  std::fwrite(page.data(), 1, page.size(), stdout);
}
