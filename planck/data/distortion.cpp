#include "planck/data/distortion.h"

#include <fmt/format.h>

#include <cmath>

#include "planck/data/random_stream.h"
#include "planck/math/trig.h"

namespace planck {

namespace {

// In [−1, 1), exact.
float symmetric(std::uint32_t word) { return 2.0f * uniform01(word) - 1.0f; }

}  // namespace

Result<void> check(const Distortion& d) {
  const auto refuse = [](std::string_view what, float value, std::string_view rule) {
    return fail(ErrorCode::invalid_problem,
                fmt::format("distortion: {} is {}, must be {}", what, value, rule));
  };
  const auto amount = [](float value) { return std::isfinite(value) && value >= 0; };
  if (!amount(d.max_rotation)) return refuse("max_rotation", d.max_rotation, "finite and >= 0");
  if (!amount(d.max_shift)) return refuse("max_shift", d.max_shift, "finite and >= 0");
  if (!amount(d.max_shear)) return refuse("max_shear", d.max_shear, "finite and >= 0");
  if (!(amount(d.min_scale) && d.min_scale > 0))
    return refuse("min_scale", d.min_scale, "finite and > 0");
  if (!(amount(d.max_scale) && d.max_scale >= d.min_scale))
    return refuse("max_scale", d.max_scale,
                  fmt::format("finite and >= min_scale, {}", d.min_scale));
  return {};
}

void affine_parameters(const Distortion& d, std::uint64_t seed, std::uint64_t epoch,
                       std::int64_t image, float theta[6]) {
  using math::fma_of;
  const PhiloxStream stream = random_stream(seed, epoch, RandomUse::distortion);
  const auto at = 2 * static_cast<std::uint64_t>(image);
  const Philox4 w = stream.words(at), more = stream.words(at + 1);
  const float a = d.max_rotation * symmetric(w.v[0]);
  const float k = d.max_shear * symmetric(w.v[1]);
  const float tx = 2.0f * d.max_shift * symmetric(w.v[2]);
  const float ty = 2.0f * d.max_shift * symmetric(w.v[3]);
  const float s = fma_of(d.max_scale - d.min_scale, uniform01(more.v[0]), d.min_scale);
  const float c = math::cos(a), n = math::sin(a);

  // Adding +0 makes −0 positive.
  theta[0] = fma_of(k, n, c) / s + 0.0f;
  theta[1] = fma_of(-k, c, n) / s + 0.0f;
  theta[3] = -n / s + 0.0f;
  theta[4] = c / s + 0.0f;
  theta[2] = -fma_of(theta[0], tx, theta[1] * ty) + 0.0f;
  theta[5] = -fma_of(theta[3], tx, theta[4] * ty) + 0.0f;
}

}  // namespace planck
