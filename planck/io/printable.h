// Text from files and command lines, fit for a terminal.
//
// Whatever comes in, what goes out is valid UTF-8 without anything that steers a terminal or turns
// its line around: control characters and bytes that are not UTF-8 become \x1b, C1 controls,
// bidirectional marks and invisible characters become \u202e.
#pragma once

#include <string>
#include <string_view>

namespace planck {

std::string printable(std::string_view text);

// Columns a printable text takes: its code points. Wide glyphs count as one.
std::size_t columns_of(std::string_view text);

// At most so many columns of it: the beginning and the end, with … between them.
std::string shortened(std::string_view printable_text, std::size_t columns);

}  // namespace planck
