#include "tools/planck/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/planck/print/table.h"
#include "tools/planck/report/confusion_chart.h"
#include "tools/planck/report/report_charts.h"
#include "tools/planck/report/report_style.h"
#include "tools/planck/report/report_text.h"

namespace planck::cli {

namespace {

std::string section(std::string_view heading, std::string_view lead, const std::string& body) {
  return fmt::format("<section>\n<h2>{}</h2>\n<p>{}</p>\n{}\n</section>\n", heading, lead, body);
}

std::string figure_of(std::string_view what, const std::string& number, const std::string& of) {
  return fmt::format(
      "<div><dt>{}</dt><dd><span class=\"number\">{}</span><br/><span class=\"of\">{}</span></dd>"
      "</div>\n",
      what, number, html_escaped(of));
}

// The best of the models in each respect.
std::string figures(const std::vector<TrainingReport::Model>& models) {
  if (models.empty()) return "";
  using Model = TrainingReport::Model;
  const auto least = [&](auto key) {
    return *std::min_element(models.begin(), models.end(), [&](const Model& a, const Model& b) {
      const double ka = key(a), kb = key(b);
      return std::isfinite(ka) && (!std::isfinite(kb) || ka < kb);
    });
  };
  const Model best = least([](const Model& m) { return -m.accuracy; });
  const Model small = least([](const Model& m) { return static_cast<double>(m.bytes); });
  const Model fast = least([](const Model& m) { return m.microseconds_per_image; });
  return fmt::format(
      "<dl class=\"figures\">\n{}{}{}</dl>\n",
      figure_of("Best accuracy", percent_text(best.accuracy), best.name),
      figure_of("Smallest", size_text(small.bytes), small.name),
      figure_of("Fastest, per image", microseconds_text(fast.microseconds_per_image), fast.name));
}

std::string learning(const std::vector<TrainingReport::Curve>& curves) {
  const std::string loss = curves_svg(curves, CurveKind::loss),
                    accuracy = curves_svg(curves, CurveKind::accuracy);
  if (loss.empty() && accuracy.empty()) return "";
  std::string body = "<ul class=\"legend\">\n";
  for (std::size_t s = 0; s < curves.size(); ++s)
    body += fmt::format(
        "<li><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><line class=\"curve s{}{}\" x1=\"1\" "
        "y1=\"5\" x2=\"21\" y2=\"5\"/></svg>{}</li>\n",
        s % kSeriesColors, s < kSeriesColors ? "" : " again", html_escaped(curves[s].name));
  body += "</ul>\n<div class=\"charts\">\n";
  if (!loss.empty()) body += fmt::format("<div class=\"card\"><h3>Loss</h3>\n{}</div>\n", loss);
  if (!accuracy.empty())
    body += fmt::format("<div class=\"card\"><h3>Accuracy</h3>\n{}</div>\n", accuracy);
  return section("Learning", "By epoch, with the last value at the end of each line.",
                 body + "</div>");
}

// Where bars of accuracy begin: below the worst, at a multiple of 5 %, so that they differ.
double bars_begin(const std::vector<TrainingReport::Model>& models) {
  double worst = 1;
  for (const TrainingReport::Model& m : models)
    for (const double v : {m.accuracy, m.low})
      if (std::isfinite(v)) worst = std::min(worst, v);
  return std::max(0.0, std::floor(worst * 20 - 1) / 20);
}
// A bar, and the interval as a line along it.
std::string bar_svg(const TrainingReport::Model& m, double begin) {
  if (!std::isfinite(m.accuracy)) return "";
  const auto place = [&](double v) {
    return 100 * std::clamp((v - begin) / (1 - begin), 0.0, 1.0);
  };
  std::string error;
  if (std::isfinite(m.low) && std::isfinite(m.high) && m.low < m.high)
    error = fmt::format("<path class=\"error\" d=\"M{:.1f} 1v4m0 -2H{:.1f}m0 -2v4\"/>",
                        place(m.low), place(m.high));
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\"><rect class=\"track\" width=\"100\" height=\"6\"/><rect "
      "class=\"t0\" width=\"{:.1f}\" height=\"6\"/>{}</svg>",
      place(m.accuracy), error);
}
std::string interval_text(const TrainingReport::Model& m) {
  if (!std::isfinite(m.low) || !std::isfinite(m.high)) return "";
  return with_minus_signs(
      fmt::format("<small>{:.2f} to {:.2f} %</small>", 100 * m.low, 100 * m.high));
}

std::string models_table(const std::vector<TrainingReport::Model>& models,
                         const std::vector<std::string>& findings) {
  if (models.empty()) return "";
  std::string body =
      "<div class=\"card scroll\"><table>\n<thead><tr><th>Model</th><th>Accuracy</th>"
      "<th>Size</th><th>Time per image</th></tr></thead>\n<tbody>\n";
  const TrainingReport::Model& first = models.front();
  const double begin = bars_begin(models);
  for (const TrainingReport::Model& m : models) {
    // Sizes and times against those of the first model.
    const auto times = [&](double from, double to) {
      const double ratio = from / to;
      if (&m == &first || !std::isfinite(ratio) || ratio <= 0) return std::string();
      return fmt::format("<small>{:.{}f}×</small>", 1 / ratio, ratio > 1 ? 2 : 1);
    };
    const double points = 100 * (m.accuracy - first.accuracy);
    const std::string change =
        &m == &first || !std::isfinite(points)
            ? ""
            : with_minus_signs(fmt::format("<small>{:+.2f}{}{}</small>", points,
                                           m.answers.empty() ? "" : ": ", html_escaped(m.answers)));
    body += fmt::format("<tr><td>{}</td><td>{}{}{}{}</td><td>{}{}</td><td>{}{}</td></tr>\n",
                        html_escaped(m.name), percent_text(m.accuracy), bar_svg(m, begin),
                        interval_text(m), change, size_text(m.bytes),
                        times(static_cast<double>(first.bytes), static_cast<double>(m.bytes)),
                        microseconds_text(m.microseconds_per_image),
                        times(first.microseconds_per_image, m.microseconds_per_image));
  }
  body += "</tbody>\n</table></div>";
  if (!findings.empty()) body += "\n<ul class=\"findings\">\n";
  for (const std::string& f : findings) body += fmt::format("<li>{}</li>\n", html_escaped(f));
  if (!findings.empty()) body += "</ul>";
  const std::string bars = fmt::format(
      "Bars go from {:.0f} % to 100 % of accuracy; lines on them are intervals of 95 %.",
      100 * begin);
  return section("Models",
                 (models.size() > 1
                      ? "Small figures compare with the first: points of accuracy with the answers "
                        "that became right and wrong, and multiples of its size and time. "
                      : "Accuracy, size and time of one image. ") +
                     bars,
                 body);
}

std::string confusions(const std::vector<TrainingReport::Confusion>& all) {
  std::string cards;
  for (const TrainingReport::Confusion& c : all) {
    const std::string svg = confusion_svg(c), often = frequent_mistakes(c);
    if (svg.empty() && often.empty()) continue;
    cards += fmt::format("<div class=\"card\"><h3>{}</h3>\n{}{}</div>\n", html_escaped(c.name), svg,
                         often.empty() ? "" : fmt::format("<p>{}</p>\n", often));
  }
  if (cards.empty()) return "";
  return section("Confusions", "Answers by what a picture shows (down) and what was read (across).",
                 "<div class=\"histograms\">\n" + cards + "</div>");
}

std::string figures_of(const std::vector<TrainingReport::Pair>& pairs) {
  std::string body = "<div class=\"pairs\">\n";
  for (const TrainingReport::Pair& d : pairs) {
    const bool right = d.label == d.predicted;
    body += fmt::format(
        "<figure class=\"card pair {}\"><div class=\"images\">{}<span aria-hidden=\"true\">→</span>"
        "{}</div><figcaption>{} read as <b>{} {}</b>{}</figcaption></figure>\n",
        right ? "right" : "wrong",
        image_svg(d.height, d.width, d.before, fmt::format("{}, as given", d.label)),
        image_svg(d.height, d.width, d.after, fmt::format("{}, transformed", d.label)), d.label,
        d.predicted, right ? "✓" : "✗",
        d.note.empty() ? "" : fmt::format("<br/>{}", html_escaped(d.note)));
  }
  return body + "</div>";
}
std::string examples(const std::vector<TrainingReport::Pair>& pairs) {
  if (pairs.empty()) return "";
  return section("Seen straight",
                 "Images before and after the spatial transformer, which learned alone where to "
                 "look, and what the network read.",
                 figures_of(pairs));
}
std::string mistakes(const std::vector<TrainingReport::Pair>& pairs, const std::string& misread) {
  if (pairs.empty()) return "";
  return section("Mistakes",
                 fmt::format("{}{}The {} most often misread, each in the first view that the first "
                             "model misreads, and what others read there.",
                             html_escaped(misread), misread.empty() ? "" : ". ", pairs.size()),
                 figures_of(pairs));
}

std::string histograms(const std::vector<TrainingReport::Histogram>& weights) {
  std::string cards;
  for (const TrainingReport::Histogram& h : weights)
    if (const std::string svg = histogram_svg(h); !svg.empty())
      cards +=
          fmt::format("<div class=\"card\"><h3>{}</h3>\n{}</div>\n", html_escaped(h.name), svg);
  if (cards.empty()) return "";
  return section(
      "Weights", "How often each value occurs, before and after.",
      "<ul class=\"legend\"><li><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><rect class=\""
      "before\" width=\"22\" height=\"10\" rx=\"2\"/></svg>before</li><li><svg viewBox=\"0 0 22 "
      "10\" "
      "aria-hidden=\"true\"><line class=\"curve s0\" x1=\"1\" y1=\"5\" x2=\"21\" "
      "y2=\"5\"/></svg>after"
      "</li></ul>\n<div class=\"histograms\">\n" +
          cards + "</div>");
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& all) {
  if (all.empty()) return "";
  std::string body = "<dl class=\"facts\">\n";
  for (const auto& [what, value] : all)
    body += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(what), html_escaped(value));
  return section("How it was made", "None of it is part of the weights or of their hash.",
                 body + "</dl>");
}

}  // namespace

std::string report_html(const TrainingReport& report) {
  const std::string title = html_escaped(report.title.empty() ? "Training" : report.title);
  std::string body = figures(report.models) + learning(report.curves) +
                     models_table(report.models, report.findings) + confusions(report.confusions) +
                     examples(report.examples) + mistakes(report.mistakes, report.misread) +
                     histograms(report.weights) + facts(report.facts);
  if (body.empty()) body = "<p>Nothing was recorded.</p>\n";
  std::string footer;
  if (!report.weights_sha256.empty())
    footer = fmt::format(
        "<footer>Two runs of one seed end with the same weights, to the last bit, on any number of "
        "threads, on CPU and GPU. SHA-256 of these:<br/><code>{}</code></footer>\n",
        html_escaped(report.weights_sha256));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{}</h1>\n{}"
      "</header>\n{}{}</main>\n</body>\n</html>\n",
      title, kReportStyle, title,
      report.device.empty() ? "" : fmt::format("<p>{}</p>\n", html_escaped(report.device)), body,
      footer);
}

}  // namespace planck::cli
