// What `planck` exits with. 0: done. 1: a guarantee did not hold. 2: bad input, said in one line on
// standard error. 3: the same, after an output was put in place.
#pragma once

namespace planck::cli {

inline constexpr int kOk = 0, kBroken = 1, kBadInput = 2, kBadAfterOutput = 3;

}  // namespace planck::cli
