#include "planck/nn/quantize/quantizable.h"

#include <algorithm>
#include <cmath>

namespace planck::nn {

std::int64_t place_of(double fraction, std::int64_t members) {
  const auto rank = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(members)));
  return std::clamp<std::int64_t>(rank - 1, 0, members - 1);
}
double step_factor(double x) { return 1 / std::sqrt(x); }

QuantLayerOptions qat_options(Dtype dtype, Granularity weights, bool learned, Observe observer) {
  if (dtype != Dtype::s8 && dtype != Dtype::s4)
    refuse(ErrorCode::unsupported, "qat_options: the dtype is {}, it must be s8 or s4", {dtype});
  const std::int32_t highest = int_range(dtype).highest;
  QuantLayerOptions o;
  o.weight = {.scheme = {.granularity = weights,
                         .axis = 0,
                         .dtype = dtype,
                         .range = IntRange{-highest, highest}},
              .observer = {.method = Observe::min_max},
              .learned = learned};
  o.input = {.scheme = {.dtype = Dtype::s8, .range = IntRange{-highest, highest}},
             .observer = {.method = observer},
             .learned = learned};
  return o;
}

void prepare_qat(const PartList& parts, const QuantLayerOptions& options,
                 const KeepFloat& keep_float) {
  for (const auto& [path, layer] : parts.quantizable())
    if (!keep_float || !keep_float(path)) layer->prepare(options);
}
void start_quantizing(const PartList& parts) {
  for (const auto& [path, layer] : parts.quantizable()) layer->start_quantizing();
}
void convert(const PartList& parts) {
  for (const auto& [path, layer] : parts.quantizable()) layer->convert();
}

}  // namespace planck::nn
