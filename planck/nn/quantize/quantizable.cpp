#include "planck/nn/quantize/quantizable.h"

namespace planck::nn {

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
