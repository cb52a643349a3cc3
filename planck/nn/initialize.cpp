#include "planck/nn/initialize.h"

#include <cmath>

namespace planck::nn {

double fan_in_bound(std::int64_t fan_in) {
  return fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
}

}  // namespace planck::nn
