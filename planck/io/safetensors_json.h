// The JSON inside a safetensors header, to and from SafetensorsHeader.
//
// Reading is event by event, without a tree: nothing is kept but what the format has a place for,
// so a header of deep nesting or of a million wrong values costs no memory and stops at its first
// fault. Byte ranges are taken as they are written; whether they make sense is parse_header's
// business.
#pragma once

#include <string>
#include <string_view>

#include "planck/io/safetensors_header.h"

namespace planck {

[[nodiscard]] Result<SafetensorsHeader> parse_header_json(std::string_view text);
[[nodiscard]] Result<std::string> header_json(const SafetensorsHeader& header);

}  // namespace planck
