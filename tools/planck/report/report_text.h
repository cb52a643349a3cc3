// Texts and numbers as they stand in a page.
#pragma once

#include <string>
#include <string_view>

namespace planck::cli {

// Fit for element content and quoted attributes, whatever the bytes are.
std::string html_escaped(std::string_view text);

// "98.61 %", "0.0213", "12.4 µs"; an en dash for what is not finite.
std::string percent_text(double fraction);
std::string loss_text(double loss);
std::string microseconds_text(double microseconds);
std::string with_minus_signs(std::string number);  // "-0.5" becomes "−0.5"

}  // namespace planck::cli
