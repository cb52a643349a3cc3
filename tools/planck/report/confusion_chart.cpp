#include "tools/planck/report/confusion_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace planck::cli {

namespace {

constexpr int kMostClasses = 20, kMostPairs = 6, kShades = 5;
constexpr double kCell = 30, kMargin = 30;

struct Pair {
  int label, read;
  std::int64_t count;
};

// Mistakes, the most frequent first.
std::vector<Pair> mistakes_in(const TrainingReport::Confusion& c) {
  std::vector<Pair> all;
  for (int label = 0; label < c.classes; ++label)
    for (int read = 0; read < c.classes; ++read)
      if (const auto at = static_cast<std::size_t>(label) * static_cast<std::size_t>(c.classes) +
                          static_cast<std::size_t>(read);
          label != read && at < c.counts.size() && c.counts[at] > 0)
        all.push_back({label, read, c.counts[at]});
  std::stable_sort(all.begin(), all.end(),
                   [](const Pair& a, const Pair& b) { return a.count > b.count; });
  return all;
}

}  // namespace

std::string confusion_svg(const TrainingReport::Confusion& c) {
  const auto n = static_cast<std::size_t>(std::max(c.classes, 0));
  if (c.classes < 1 || c.classes > kMostClasses || c.counts.size() != n * n) return "";
  const auto wrong = mistakes_in(c);
  const double most = wrong.empty() ? 1 : static_cast<double>(wrong.front().count);
  const double size = kMargin + kCell * c.classes + 1;
  std::string out = fmt::format(
      "<svg class=\"confusion\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"answers by label "
      "and what was read\">\n",
      size, size);
  const auto text = [&](std::string_view kind, double column, double row, const auto& what) {
    out +=
        fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", kind,
                    kMargin + kCell * (column + 0.5), kMargin + kCell * (row + 0.5) + 4, what);
  };
  for (int label = 0; label < c.classes; ++label) {
    text("tick", -1, label, label);
    text("tick", label, -1, label);
    for (int read = 0; read < c.classes; ++read) {
      const std::int64_t count =
          c.counts[static_cast<std::size_t>(label) * n + static_cast<std::size_t>(read)];
      const double share = static_cast<double>(count) / most;
      const int shade = label == read || count <= 0
                            ? 0
                            : std::clamp(static_cast<int>(std::ceil(share * kShades)), 1, kShades);
      out += fmt::format("<rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">",
                         label == read ? "d" : "k", label == read ? "" : std::to_string(shade),
                         kMargin + kCell * read, kMargin + kCell * label, kCell - 1, kCell - 1);
      out += fmt::format("<title>{} read as {}: {}</title></rect>", label, read, count);
      if (count != 0) text(label == read ? "hits" : "misses", read, label, count);
    }
    out += "\n";
  }
  return out + "</svg>";
}

std::string frequent_mistakes(const TrainingReport::Confusion& c) {
  std::string text;
  const auto all = mistakes_in(c);
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), kMostPairs); ++i)
    text += fmt::format("{}{} read as {}: {}", i > 0 ? ", " : "", all[i].label, all[i].read,
                        all[i].count);
  return text;
}

}  // namespace planck::cli
