// Which of the names that exist somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace planck {

// The name that takes the fewest changes (a letter more, less, other, or two exchanged): at most
// one for each three letters. "" where none is near.
std::string_view nearest_name(std::string_view meant, std::span<const std::string_view> names);

// " (did you mean NAME?)", or "".
std::string did_you_mean(std::string_view meant, std::span<const std::string_view> names);

}  // namespace planck
