#include "tools/planck/digits/verdicts.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace planck::digits {

namespace {

constexpr double kQuantile = 1.959963984540054;  // of 97.5 % of a normal distribution

// Of the mean of values; 0 of one value.
double error_of_mean(std::span<const double> values, double mean) {
  const auto n = static_cast<double>(values.size());
  if (n < 2) return 0;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / (n - 1) / n);
}

// P(X <= k) for X of n throws of a coin.
double coin_tail(std::int64_t k, std::int64_t n) {
  double sum = 0;
  const auto all = static_cast<double>(n);
  for (std::int64_t i = 0; i <= k; ++i) {
    const auto some = static_cast<double>(i);
    sum += std::exp(std::lgamma(all + 1) - std::lgamma(some + 1) - std::lgamma(all - some + 1) -
                    all * std::log(2.0));
  }
  return sum;
}

std::vector<double> shares_of(const Verdicts& v) {
  std::vector<double> shares;
  for (const std::int64_t right : v.right_views())
    shares.push_back(static_cast<double>(right) / static_cast<double>(v.views));
  return shares;
}

}  // namespace

std::vector<std::int64_t> Verdicts::right_views() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(pictures));
  for (std::int64_t view = 0; view < views; ++view)
    for (std::int64_t i = 0; i < pictures; ++i)
      counts[static_cast<std::size_t>(i)] += right(view, i) ? 1 : 0;
  return counts;
}

double Verdicts::share() const {
  std::int64_t sum = 0;
  for (const std::int64_t right : right_views()) sum += right;
  return answers() > 0 ? static_cast<double>(sum) / static_cast<double>(answers()) : 0;
}

Accuracy accuracy_of(const Verdicts& verdicts) {
  Accuracy a;
  if (verdicts.answers() == 0) return a;
  for (const std::int64_t right : verdicts.right_views()) a.right += right;
  const auto answers = static_cast<double>(verdicts.answers());
  const double p = a.share = verdicts.share();
  a.error = error_of_mean(shares_of(verdicts), p);
  const double spread = p * (1 - p);
  const double m = a.error > 0 ? std::min(spread / (a.error * a.error), answers)
                               : static_cast<double>(verdicts.pictures);
  const double z2 = kQuantile * kQuantile, middle = (p + z2 / (2 * m)) / (1 + z2 / m);
  const double half = kQuantile / (1 + z2 / m) * std::sqrt(spread / m + z2 / (4 * m * m));
  a.low = std::max(0.0, middle - half);
  a.high = std::min(1.0, middle + half);
  return a;
}

Comparison compare(const Verdicts& first, const Verdicts& second) {
  Comparison c;
  const auto before = shares_of(first), after = shares_of(second);
  std::vector<double> differences;
  for (std::size_t i = 0; i < before.size(); ++i) {
    differences.push_back(after[i] - before[i]);
    c.better += after[i] > before[i] ? 1 : 0;
    c.worse += after[i] < before[i] ? 1 : 0;
    c.difference += differences.back() / static_cast<double>(before.size());
  }
  c.half_width = kQuantile * error_of_mean(differences, c.difference);
  for (std::int64_t view = 0; view < first.views; ++view)
    for (std::int64_t i = 0; i < first.pictures; ++i) {
      c.gained += second.right(view, i) && !first.right(view, i) ? 1 : 0;
      c.lost += first.right(view, i) && !second.right(view, i) ? 1 : 0;
    }
  c.chance = std::min(1.0, 2 * coin_tail(std::min(c.better, c.worse), c.better + c.worse));
  return c;
}

std::vector<std::int64_t> confusion_of(const Verdicts& verdicts) {
  const auto classes = static_cast<std::size_t>(verdicts.classes);
  std::vector<std::int64_t> counts(classes * classes);
  for (std::size_t i = 0; i < verdicts.predicted.size(); ++i) {
    const auto label =
        static_cast<std::size_t>(verdicts.labels[i % static_cast<std::size_t>(verdicts.pictures)]);
    ++counts[label * classes + static_cast<std::size_t>(verdicts.predicted[i])];
  }
  return counts;
}

std::vector<Mistake> mistakes_of(const Verdicts& verdicts) {
  std::vector<Mistake> mistakes;
  for (std::int64_t i = 0; i < verdicts.pictures; ++i) {
    Mistake m{i, -1, 0};
    for (std::int64_t view = verdicts.views - 1; view >= 0; --view)
      if (!verdicts.right(view, i)) {
        m.view = view;
        ++m.misread;
      }
    if (m.misread > 0) mistakes.push_back(m);
  }
  std::stable_sort(mistakes.begin(), mistakes.end(),
                   [](const Mistake& a, const Mistake& b) { return a.misread > b.misread; });
  return mistakes;
}

}  // namespace planck::digits
