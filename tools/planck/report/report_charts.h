// The pictures of a report, as inline SVG. Colors are the page's (report_style.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/planck/report/report.h"

namespace planck::cli {

inline constexpr int kSeriesColors = 6;  // classes s0 … s5; further curves begin again, dashed

enum class CurveKind : std::uint8_t { loss, accuracy };

// One line per curve over epochs, labelled with its last value. Losses that span more than a factor
// of 20 are on a logarithmic axis. "" where there is nothing to draw.
std::string curves_svg(const std::vector<TrainingReport::Curve>& curves, CurveKind kind);

// Both sets of weights in the same bins. "" where neither has a finite one.
std::string histogram_svg(const TrainingReport::Histogram& histogram);

// A grey image: ink on paper, in 16 shades.
std::string image_svg(std::int64_t height, std::int64_t width, std::span<const float> pixels,
                      const std::string& title);

}  // namespace planck::cli
