// The built-in data set: 1,797 handwritten digits of 8 × 8 pixels (data/README.md: E. Alpaydin and
// C. Kaynak, UCI Machine Learning Repository, 1998, CC BY 4.0). The file is part of the library.
#pragma once

#include <string_view>

#include "planck/data/images.h"

namespace planck {

// Pixels are v / 16, exactly. In the order of the file; 10 classes.
[[nodiscard]] Result<ImageSet> load_digits();

std::string_view digits_csv();  // the bytes of data/digits.csv

// Lines of 64 pixels, 0 to 16, and a label, 0 to 9. Errors name the line and both values.
[[nodiscard]] Result<ImageSet> parse_digits(std::string_view csv);

}  // namespace planck
