#include "planck/ops/grid_sample/test/grids.cases.h"

#include <cmath>
#include <limits>

#include "planck/math/philox.h"

namespace planck::verify {

namespace {

double unit(std::uint32_t word) { return static_cast<double>(word) * 0x1p-31 - 1; }  // [−1, 1)

double hostile(std::uint32_t word) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {std::numeric_limits<double>::quiet_NaN(),
                                inf,
                                -inf,
                                1e30,
                                -1e30,
                                3e38,
                                1e10,
                                -1e10,
                                2147483648.0,
                                -2147483649.0,
                                1e5,
                                -77.7,
                                -1,
                                1,
                                -0.0,
                                0.999999,
                                1e18,
                                -4e18,
                                65504,
                                1e-40};
  return kValues[word % std::size(kValues)];
}

// The extents of the input that the grid is for, width first.
Shape extents_of(const Case& c) {
  Shape extents;
  for (const CaseInput& in : c.inputs)
    if (in.name == "input")
      for (int d = in.shape.rank() - 1; d >= 2; --d) extents.push_back(in.shape[d]);
  return extents;
}

template <GridKind kKind>
void put(const Case& c, NamedTensors& tensors) {
  const auto found = tensors.find("grid");
  if (found == tensors.end()) return;
  HostTensor& grid = found->second;
  const Shape& shape = grid.shape;
  const int dims = shape.rank() - 2;
  const Shape input = extents_of(c);
  const PhiloxStream random{c.seed, 41};
  const double angle = kKind == GridKind::turned ? 0.65 : 0.3;
  const double turn_sine = std::sin(angle), turn_cosine = std::cos(angle);
  const std::int64_t points = shape[0] == 0 ? 0 : grid.count() / dims / shape[0];
  for (std::int64_t i = 0; i < grid.count() / (dims > 0 ? dims : 1); ++i) {
    const std::int64_t image = i / points;
    double even[3] = {0, 0, 0};  // x, y, z of the output position
    std::int64_t rest = i % points;
    for (int k = 0; k < dims; ++k) {
      const std::int64_t extent = shape[dims - k];
      even[k] = (2.0 * static_cast<double>(rest % extent) + 1) / static_cast<double>(extent) - 1;
      rest /= extent;
    }
    for (int k = 0; k < dims; ++k) {
      const Philox4 r = random.words(static_cast<std::uint64_t>(i * dims + k));
      double g = unit(r.v[0]);
      if (kKind == GridKind::random) g *= 1.15;
      if (kKind == GridKind::identity) g = even[k];
      if (kKind == GridKind::affine || kKind == GridKind::turned) {
        const double other = even[k == 0 ? 1 : 0] * (k == 0 ? -turn_sine : turn_sine);
        g = 0.9 * ((k < 2 ? turn_cosine * even[k] + other : even[k])) +
            0.01 * static_cast<double>(image % 7 - 3);
      }
      if (kKind == GridKind::one_point)
        g = 0.3 * unit(random.words(static_cast<std::uint64_t>(image * dims + k)).v[0]);
      if (kKind == GridKind::outside) g = (g < 0 ? -3 : 3) + 30 * g;
      if (kKind == GridKind::boundaries) {
        const std::int64_t size = input[k];
        const double s =
            static_cast<double>(r.v[0] % (2 * static_cast<std::uint64_t>(size) + 5)) / 2 - 1.5;
        const double extent = static_cast<double>(size);
        g = r.v[1] % 2 == 0 || size == 1 ? (2 * s + 1) / extent - 1 : 2 * s / (extent - 1) - 1;
      }
      if (kKind == GridKind::hostile && r.v[1] % 3 != 0) g = hostile(r.v[2]);
      grid.set_number(i * dims + k, g);
    }
  }
}

}  // namespace

Case::Prepare put_grid(GridKind kind) {
  switch (kind) {
    case GridKind::random:
      return {"random", put<GridKind::random>, "grid"};
    case GridKind::identity:
      return {"identity", put<GridKind::identity>, "grid"};
    case GridKind::affine:
      return {"affine", put<GridKind::affine>, "grid"};
    case GridKind::turned:
      return {"turned", put<GridKind::turned>, "grid"};
    case GridKind::one_point:
      return {"one_point", put<GridKind::one_point>, "grid"};
    case GridKind::outside:
      return {"outside", put<GridKind::outside>, "grid"};
    case GridKind::boundaries:
      return {"boundaries", put<GridKind::boundaries>, "grid"};
    case GridKind::hostile:
      break;
  }
  return {"hostile", put<GridKind::hostile>, "grid"};
}

}  // namespace planck::verify
