// Which classes a model takes for which others, as inline SVG and in words.
#pragma once

#include <string>

#include "tools/planck/report/report.h"

namespace planck::cli {

// Labels down, what was read across; mistakes are the darker the more there are. "" where there are
// no answers, or more classes than can be drawn.
std::string confusion_svg(const TrainingReport::Confusion& confusion);

// "9 read as 5: 12, 8 read as 1: 9": the most frequent mistakes. "" without any.
std::string frequent_mistakes(const TrainingReport::Confusion& confusion);

}  // namespace planck::cli
