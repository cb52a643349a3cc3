#include "tools/planck/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tools/planck/report/report_text.h"

namespace planck::cli {

namespace {

// All in the units of a view box; at most about a pixel each.
constexpr double kWidth = 440, kHeight = 236, kLeft = 46, kRight = 62, kTop = 12, kBottom = 30;

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  double place(double v) const {  // 0 … 1
    return logarithmic ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
  }
};

double nice_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range)));
  const double leading = range / power;
  return power * (leading < 1.5 ? 1 : leading < 3.5 ? 2 : leading < 7.5 ? 5 : 10);
}

// From zero, or from a round number below the least.
Axis linear_axis(double low, double high) {
  if (!(high > low)) high = low + (low == 0 ? 1 : std::abs(low));
  const double step = nice_step((high - low) / 4);
  Axis axis;
  axis.low = step * std::floor(low / step + 1e-9);
  axis.high = step * std::ceil(high / step - 1e-9);
  const auto count = static_cast<int>(std::lround((axis.high - axis.low) / step));
  for (int i = 0; i <= count; ++i) axis.ticks.push_back(axis.low + step * i);
  return axis;
}

Axis logarithmic_axis(double low, double high) {
  Axis axis{low / 1.2, high * 1.2, true, {}};
  const auto first = static_cast<int>(std::floor(std::log10(axis.low))),
             last = static_cast<int>(std::floor(std::log10(axis.high)));
  const bool decades_alone = high / low > 300;
  for (int k = first; k <= last; k += std::max(1, (last - first) / 6))
    for (const double leading : {1.0, 2.0, 5.0})
      if (const double v = leading * std::pow(10, k);
          v >= axis.low && v <= axis.high && (leading == 1 || !decades_alone))
        axis.ticks.push_back(v);
  return axis;
}

double x_at(double share) { return kLeft + share * (kWidth - kLeft - kRight); }
double y_at(double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); }

// As the path of an SVG. A line enters from below the axis where it crosses it, and is broken where
// a value cannot be drawn.
class Line {
 public:
  explicit Line(const Axis& axis) : axis_(axis) {}

  void add(double x, double v) {
    const bool number = std::isfinite(v) && !(axis_.logarithmic && v <= 0);
    const double y = number ? axis_.place(v) : 0;
    const bool inside = number && y >= -1e-9;
    if (inside != inside_ && number && known_) {  // between here and there it crosses the axis
      const double share = last_y_ / (last_y_ - y);
      path_ += fmt::format("{}{:.1f} {:.1f}", inside ? "M" : "L", last_x_ + share * (x - last_x_),
                           y_at(0));
      if (inside) inside_ = true;
    }
    if (inside) path_ += fmt::format("{}{:.1f} {:.1f}", inside_ ? "L" : "M", x, y_at(y));
    inside_ = inside, known_ = number, last_x_ = x, last_y_ = y;
  }
  bool inside() const { return inside_; }
  const std::string& path() const { return path_; }

 private:
  const Axis& axis_;
  std::string path_;
  bool inside_ = false, known_ = false;
  double last_x_ = 0, last_y_ = 0;
};

// Accuracies climb fast and differ late: their axis begins below what comes after the first fifth.
Axis axis_for(const std::vector<TrainingReport::Curve>& curves, CurveKind kind) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& curve : curves) {
    const auto& values = kind == CurveKind::loss ? curve.loss : curve.accuracy;
    const std::size_t first = kind == CurveKind::loss ? 0 : values.size() / 5;
    for (std::size_t e = first; e < values.size(); ++e)
      if (const auto v = static_cast<double>(values[e]); std::isfinite(v)) {
        low = std::min(low, v);
        high = std::max(high, v);
      }
  }
  if (!std::isfinite(low)) return {};
  if (kind == CurveKind::accuracy) return linear_axis(std::min(low, 1.0), std::max(high, 1.0));
  if (low > 0 && high / low > 20) return logarithmic_axis(low, high);
  return linear_axis(std::min(low, 0.0), high);
}

std::string tick_text(double v, CurveKind kind) {
  if (kind == CurveKind::accuracy) return with_minus_signs(fmt::format("{:.4g} %", 100 * v));
  return loss_text(std::abs(v) < 1e-12 ? 0.0 : v);
}

struct EndLabel {
  double y;
  std::string text;
  std::size_t series;
};

// Pushes labels apart that would lie on one another, and back up where they leave the chart.
void spread(std::vector<EndLabel>& labels) {
  constexpr double kApart = 14;
  std::stable_sort(labels.begin(), labels.end(), [](auto& a, auto& b) { return a.y < b.y; });
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + kApart);
  double limit = kHeight - kBottom;
  for (std::size_t i = labels.size(); i-- > 0; limit -= kApart)
    labels[i].y = std::min(labels[i].y, limit);
}

std::string series_class(std::size_t series) {
  return fmt::format("s{}{}", series % kSeriesColors, series < kSeriesColors ? "" : " again");
}

std::string frame(const Axis& axis, std::size_t epochs, CurveKind kind) {
  std::string out;
  for (const double v : axis.ticks) {
    const double y = y_at(axis.place(v));
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, y, kWidth - kRight, y, kLeft - 7, y + 4, tick_text(v, kind));
  }
  const auto last = static_cast<double>(epochs - 1);
  const double step = epochs <= 7 ? 1 : std::max(1.0, nice_step(last / 5));
  for (double e = 0; e < static_cast<double>(epochs); e += 1) {
    const bool round = std::fmod(e + 1, step) == 0 || e == 0;
    if (!round) continue;
    out +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                    x_at(last > 0 ? e / last : 0.5), kHeight - kBottom + 18, e + 1);
  }
  return out;
}

}  // namespace

std::string curves_svg(const std::vector<TrainingReport::Curve>& curves, CurveKind kind) {
  const Axis axis = axis_for(curves, kind);
  if (axis.ticks.empty()) return "";
  const auto values_of = [&](const TrainingReport::Curve& c) -> const std::vector<float>& {
    return kind == CurveKind::loss ? c.loss : c.accuracy;
  };
  std::size_t epochs = 1;
  for (const auto& curve : curves) epochs = std::max(epochs, values_of(curve).size());
  const auto text = [&](double v) {
    return kind == CurveKind::loss ? loss_text(v) : percent_text(v);
  };
  const std::string_view what = kind == CurveKind::loss ? "loss" : "accuracy";

  std::string out =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} by epoch\">\n", kWidth,
                  kHeight, what);
  out += frame(axis, epochs, kind);
  std::string points;
  std::vector<EndLabel> labels;
  for (std::size_t s = 0; s < curves.size(); ++s) {
    const auto& values = values_of(curves[s]);
    Line line(axis);
    double x = 0, y = 0, end = 0;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const auto v = static_cast<double>(values[e]);
      const double here =
          x_at(epochs > 1 ? static_cast<double>(e) / static_cast<double>(epochs - 1) : 0.5);
      line.add(here, v);
      if (!line.inside()) continue;
      x = here, y = y_at(axis.place(v)), end = v;
      if (epochs <= 100)  // what a pointer that rests here is told
        points += fmt::format(
            "<circle class=\"touch\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\"><title>{}, "
            "epoch {}: {} {}</title></circle>\n",
            x, y, html_escaped(curves[s].name), e + 1, what, text(v));
    }
    if (line.path().empty()) continue;
    out += fmt::format(
        "<path class=\"curve {}\" d=\"{}\"/><circle class=\"end {}\" cx=\"{:.1f}\" "
        "cy=\"{:.1f}\" r=\"3.5\"/>\n",
        series_class(s), line.path(), series_class(s), x, y);
    labels.push_back({y + 4, text(end), s});
  }
  spread(labels);
  for (const EndLabel& label : labels)
    out += fmt::format("<text class=\"value t{}\" x=\"{}\" y=\"{:.1f}\">{}</text>\n",
                       label.series % kSeriesColors, kWidth - kRight + 9, label.y, label.text);
  return out + points + "</svg>";
}

std::string histogram_svg(const TrainingReport::Histogram& histogram) {
  constexpr std::size_t kBins = 64;
  constexpr double kWide = 320, kHigh = 120, kBase = 98;
  double largest = 0;
  bool any = false;
  for (const auto* weights : {&histogram.before, &histogram.after})
    for (const float v : *weights)
      if (std::isfinite(v)) {
        any = true;
        largest = std::max(largest, std::abs(static_cast<double>(v)));
      }
  if (!any) return "";
  if (largest == 0) largest = 1;
  const auto shares = [&](const std::vector<float>& weights) {
    std::array<double, kBins> bins{};
    for (const float v : weights)
      if (std::isfinite(v)) {
        const double at = (static_cast<double>(v) / largest + 1) / 2 * kBins;
        bins[std::min(kBins - 1, static_cast<std::size_t>(at))] += 1;
      }
    for (double& b : bins) b /= std::max<double>(1, static_cast<double>(weights.size()));
    return bins;
  };
  const auto before = shares(histogram.before), after = shares(histogram.after);
  const double most = std::max(*std::max_element(before.begin(), before.end()),
                               *std::max_element(after.begin(), after.end()));
  const auto outline = [&](const std::array<double, kBins>& bins) {
    std::string path = fmt::format("M0 {}", kBase);
    for (std::size_t i = 0; i < kBins; ++i)
      path += fmt::format("V{:.1f}H{:g}", kBase - bins[i] / most * (kBase - 6),
                          static_cast<double>(i + 1) * kWide / kBins);
    return path + fmt::format("V{}", kBase);
  };
  std::string out =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"histogram of weights\">\n",
                  kWide, kHigh);
  if (!histogram.before.empty())
    out += fmt::format("<path class=\"before\" d=\"{}Z\"/>\n", outline(before));
  if (!histogram.after.empty())
    out += fmt::format("<path class=\"after\" d=\"{}\"/>\n", outline(after));
  out += fmt::format("<line class=\"base\" x1=\"0\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", kBase,
                     kWide, kBase);
  const std::pair<double, std::string_view> ends[] = {{0, "start"}, {0.5, "middle"}, {1, "end"}};
  for (const auto& [share, anchor] : ends)
    out += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                       share * kWide, kHigh - 5, anchor, loss_text((2 * share - 1) * largest));
  return out + "</svg>";
}

std::string image_svg(std::int64_t height, std::int64_t width, std::span<const float> pixels,
                      const std::string& title) {
  constexpr int kShades = 16;
  height = std::clamp<std::int64_t>(height, 1, 256);
  width = std::clamp<std::int64_t>(width, 1, 256);
  std::array<std::string, kShades + 1> runs;  // neighbours of one shade are one rectangle
  const auto shade = [&](std::int64_t y, std::int64_t x) {
    const auto at = static_cast<std::size_t>(y * width + x);
    const float v = at < pixels.size() && pixels[at] > 0 ? std::min(pixels[at], 1.0f) : 0.0f;
    return static_cast<std::size_t>(std::lround(v * kShades));
  };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width;) {
      const std::size_t s = shade(y, x);
      std::int64_t end = x + 1;
      while (end < width && shade(y, end) == s) ++end;
      if (s > 0) runs[s] += fmt::format("M{} {}h{}v1h-{}z", x, y, end - x, end - x);
      x = end;
    }
  std::string out = fmt::format(
      "<svg class=\"image\" viewBox=\"0 0 {} {}\" role=\"img\" shape-rendering=\"crispEdges\">"
      "<title>{}</title>",
      width, height, html_escaped(title));
  for (std::size_t s = 1; s <= kShades; ++s)
    if (!runs[s].empty())
      out += fmt::format("<path fill-opacity=\"{:g}\" d=\"{}\"/>", static_cast<double>(s) / kShades,
                         runs[s]);
  return out + "</svg>";
}

}  // namespace planck::cli
