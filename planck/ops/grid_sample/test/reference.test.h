// grid_sample restated from its formulas (grid_sample.h), one element after the other; it shares no
// code with the library.
//
// Positions are computed in P, the compute type, because a tap belongs to the rounded position. All
// that follows is computed in A: in P to the very bit, in the order that the formulas name; in a
// wider type as the value that those roundings stay near.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace planck::reference {

enum class Mode { linear, nearest, cubic };
enum class Padding { zeros, border, reflection };

struct Formula {
  int dims = 2;
  Mode mode = Mode::linear;
  Padding padding = Padding::zeros;
  bool align = false;
  std::int64_t n = 1, c = 1, in[3] = {1, 1, 1}, out[3] = {1, 1, 1};  // z, y, x
  std::int64_t pixels() const { return in[0] * in[1] * in[2]; }
  std::int64_t points() const { return out[0] * out[1] * out[2]; }
};

// One tap along one axis.
template <class A>
struct Tap {
  std::int64_t index;           // −1: outside
  A weight, slope;              // slope: of the weight by the position
  A weight_terms, slope_terms;  // the sums of the magnitudes of their terms
  std::int64_t cell;
};
template <class A>
struct AxisTaps {
  std::vector<Tap<A>> taps;
  A slope;  // of the position by the coordinate
};

template <class P>
P mirror(P s, std::int64_t size, bool align, P& sign) {
  const P low = align ? P(0) : P(-0.5), span = align ? P(size - 1) : P(size);
  if (span == 0 || !std::isfinite(s)) {
    sign = 0;
    return 0;
  }
  P x = s - low;
  if (x < 0) {
    x = -x;
    sign = -sign;
  }
  x = std::fmod(x, 2 * span);
  if (x >= span) {
    x = 2 * span - x;
    sign = -sign;
  }
  return x + low;
}

inline std::int64_t positive_mod(std::int64_t i, std::int64_t m) { return ((i % m) + m) % m; }

template <class P, class A>
AxisTaps<A> axis_taps(P g, std::int64_t size, const Formula& set) {
  const bool finite = std::isfinite(g);
  if (std::isnan(g)) g = -1;
  P s = set.align ? ((g + 1) / 2) * P(size - 1) : ((g + 1) * P(size) - 1) / 2;
  P sign = finite && std::isfinite(s) ? P(1) : P(0);
  const P stretch = (set.align ? P(size - 1) : P(size)) / 2;
  AxisTaps<A> out;
  if (set.mode == Mode::cubic) {
    const P fraction = std::isfinite(s) ? s - std::floor(s) : P(0);
    // floor(s) as an integer of manageable size with the same taps.
    const std::int64_t period = std::max<std::int64_t>(1, set.align ? 2 * (size - 1) : 2 * size);
    std::int64_t base;
    if (set.padding == Padding::reflection)
      base = std::isfinite(s)
                 ? static_cast<std::int64_t>(std::fmod(std::floor(s), static_cast<P>(period)))
                 : 0;
    else
      base = s >= -2 ? (s < P(size + 1) ? static_cast<std::int64_t>(std::floor(s)) : size + 1) : -3;
    const A t = static_cast<A>(fraction), a = A(-0.75);
    const auto close = [&](A x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto far = [&](A x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    const auto close_slope = [&](A x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
    const auto far_slope = [&](A x) { return (3 * a * x - 10 * a) * x + 8 * a; };
    const A weight[4] = {far(t + 1), close(t), close(1 - t), far(2 - t)};
    const A slope[4] = {far_slope(t + 1), close_slope(t), -close_slope(1 - t), -far_slope(2 - t)};
    const auto far_terms = [](A x) { return A(0.75) * (((x + 5) * x + 8) * x + 4); };
    const auto far_slope_terms = [](A x) { return A(0.75) * ((3 * x + 10) * x + 8); };
    const A distance[4] = {t + 1, t, 1 - t, 2 - t};
    for (std::int64_t j = 0; j < 4; ++j) {
      std::int64_t i = base - 1 + j, cell = base;
      if (set.padding == Padding::zeros) {
        if (i < 0 || i >= size) i = -1;
      } else if (set.padding == Padding::border) {
        i = std::clamp<std::int64_t>(i, 0, size - 1);
        cell = std::clamp<std::int64_t>(base, -2, size);
      } else {
        cell = positive_mod(base, period);
        i = positive_mod(i, period);
        if (i >= size) i = (set.align ? period : period - 1) - i;
      }
      out.taps.push_back(
          {i, weight[j], slope[j], far_terms(distance[j]), far_slope_terms(distance[j]), cell});
    }
    out.slope = static_cast<A>(sign * stretch);
    return out;
  }
  if (set.padding == Padding::reflection) s = mirror(s, size, set.align, sign);
  if (set.padding != Padding::zeros) {
    if (!(s > 0)) {
      s = 0;
      sign = 0;
    } else if (!(s < P(size - 1))) {
      s = P(size - 1);
      sign = 0;
    }
  }
  out.slope = static_cast<A>(sign * stretch);
  const bool near = s > -1 && s < P(size);
  const auto push = [&](std::int64_t i, A weight, A slope, std::int64_t cell) {
    out.taps.push_back({near && i >= 0 && i < size ? i : -1, weight, slope, std::abs(weight),
                        std::abs(slope), cell});
  };
  if (set.mode == Mode::nearest) {
    const std::int64_t i = near ? static_cast<std::int64_t>(std::nearbyint(s)) : -1;
    push(i, A(1), A(0), i);
  } else {
    const std::int64_t i = near ? static_cast<std::int64_t>(std::floor(s)) : -2;
    const A t = near ? static_cast<A>(s - std::floor(s)) : A(0);
    push(i, A(1) - t, A(-1), i);
    push(i + 1, t, A(1), i);
  }
  return out;
}

template <class A>
A pairwise(const std::vector<A>& v, std::size_t begin, std::size_t n) {
  if (n == 0) return A(0);
  if (n == 1) return v[begin];
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  return pairwise(v, begin, half) + pairwise(v, begin + half, n - half);
}

template <class A>
A chunked(std::vector<A> v) {
  if (v.empty()) return A(0);
  while (v.size() > 1) {
    std::vector<A> sums;
    for (std::size_t i = 0; i < v.size(); i += 64) {
      A sum = v[i];
      for (std::size_t k = i + 1; k < std::min(v.size(), i + 64); ++k) sum += v[k];
      sums.push_back(sum);
    }
    v = sums;
  }
  return v[0];
}

// Row-major tensors in A. `magnitude` of a result: the sum of the magnitudes of its terms.
template <class A>
struct Results {
  std::vector<A> output, dinput, dgrid;
  std::vector<A> output_magnitude, dinput_magnitude, dgrid_magnitude;
};

template <class P, class A>
Results<A> sample(const Formula& set, const std::vector<double>& input,
                  const std::vector<double>& grid, const std::vector<double>& dout) {
  Results<A> r;
  r.output.assign(dout.size(), A(0));
  r.output_magnitude = r.output;
  r.dgrid.assign(grid.size(), A(0));
  r.dgrid_magnitude = r.dgrid;
  // Contributions to each element, by (cell z, tap z, cell y, tap y, cell x, tap x, position).
  using Key = std::tuple<std::int64_t, int, std::int64_t, int, std::int64_t, int, std::int64_t>;
  std::vector<std::vector<std::pair<Key, A>>> contributions(input.size());
  r.dinput_magnitude.assign(input.size(), A(0));
  for (std::int64_t n = 0; n < set.n; ++n)
    for (std::int64_t p = 0; p < set.points(); ++p) {
      AxisTaps<A> axes[3];  // z, y, x
      axes[0].taps = {{0, A(1), A(0), A(1), A(0), 0}};
      for (int d = 3 - set.dims; d < 3; ++d)
        axes[d] = axis_taps<P, A>(
            static_cast<P>(
                grid[static_cast<std::size_t>((n * set.points() + p) * set.dims + 2 - d)]),
            set.in[d], set);
      std::vector<A> terms[3], terms_magnitude[3];
      for (std::int64_t c = 0; c < set.c; ++c) {
        const A g =
            static_cast<A>(dout[static_cast<std::size_t>((n * set.c + c) * set.points() + p)]);
        const auto element = [&](std::size_t z, std::size_t y, std::size_t x) -> std::int64_t {
          const std::int64_t a = axes[0].taps[z].index, b = axes[1].taps[y].index,
                             e = axes[2].taps[x].index;
          if (a < 0 || b < 0 || e < 0) return -1;
          return (n * set.c + c) * set.pixels() + (a * set.in[1] + b) * set.in[2] + e;
        };
        const auto value = [&](std::size_t z, std::size_t y, std::size_t x) {
          const std::int64_t i = element(z, y, x);
          return i < 0 ? A(0) : static_cast<A>(input[static_cast<std::size_t>(i)]);
        };
        A sum = 0, magnitude = 0;
        for (std::size_t z = 0; z < axes[0].taps.size(); ++z)
          for (std::size_t y = 0; y < axes[1].taps.size(); ++y) {
            A line = 0;
            for (std::size_t x = 0; x < axes[2].taps.size(); ++x) {
              A weight = axes[2].taps[x].weight * axes[1].taps[y].weight;
              if (set.dims == 3) weight = weight * axes[0].taps[z].weight;
              const A v = value(z, y, x);
              A terms_of_weight = axes[2].taps[x].weight_terms * axes[1].taps[y].weight_terms;
              if (set.dims == 3) terms_of_weight *= axes[0].taps[z].weight_terms;
              magnitude += terms_of_weight * std::abs(v);
              if (set.mode == Mode::nearest)
                sum = v;
              else if (set.mode == Mode::linear)
                sum = x + y + z == 0 ? weight * v : sum + weight * v;
              else
                line = x == 0 ? axes[2].taps[0].weight * v : line + axes[2].taps[x].weight * v;
              if (const std::int64_t i = element(z, y, x); i >= 0)
                r.dinput_magnitude[static_cast<std::size_t>(i)] += terms_of_weight * std::abs(g);
              if (const std::int64_t i = element(z, y, x); i >= 0)
                contributions[static_cast<std::size_t>(i)].push_back(
                    {{axes[0].taps[z].cell, static_cast<int>(z), axes[1].taps[y].cell,
                      static_cast<int>(y), axes[2].taps[x].cell, static_cast<int>(x), p},
                     set.mode == Mode::nearest ? g : weight * g});
            }
            const A wy = axes[1].taps[y].weight;
            if (set.mode == Mode::cubic) sum = y == 0 ? wy * line : sum + wy * line;
          }
        const auto at = static_cast<std::size_t>((n * set.c + c) * set.points() + p);
        r.output[at] = sum;
        r.output_magnitude[at] = magnitude;

        // The slopes along z, y, x of this channel.
        const auto w = [&](int d, std::size_t k) { return axes[d].taps[k].weight; };
        A slope[3] = {0, 0, 0};
        if (set.mode == Mode::linear && set.dims == 2) {
          slope[1] = (value(0, 1, 0) - value(0, 0, 0)) * w(2, 0) +
                     (value(0, 1, 1) - value(0, 0, 1)) * w(2, 1);
          slope[2] = (value(0, 0, 1) - value(0, 0, 0)) * w(1, 0) +
                     (value(0, 1, 1) - value(0, 1, 0)) * w(1, 1);
        } else if (set.mode == Mode::linear) {
          const auto dz = [&](std::size_t y, std::size_t x) {
            return value(1, y, x) - value(0, y, x);
          };
          const auto dy = [&](std::size_t z, std::size_t x) {
            return value(z, 1, x) - value(z, 0, x);
          };
          const auto dx = [&](std::size_t z, std::size_t y) {
            return value(z, y, 1) - value(z, y, 0);
          };
          slope[0] = (dz(0, 0) * w(2, 0) + dz(0, 1) * w(2, 1)) * w(1, 0) +
                     (dz(1, 0) * w(2, 0) + dz(1, 1) * w(2, 1)) * w(1, 1);
          slope[1] = (dy(0, 0) * w(2, 0) + dy(0, 1) * w(2, 1)) * w(0, 0) +
                     (dy(1, 0) * w(2, 0) + dy(1, 1) * w(2, 1)) * w(0, 1);
          slope[2] = (dx(0, 0) * w(1, 0) + dx(0, 1) * w(1, 1)) * w(0, 0) +
                     (dx(1, 0) * w(1, 0) + dx(1, 1) * w(1, 1)) * w(0, 1);
        } else if (set.mode == Mode::cubic) {
          for (std::size_t y = 0; y < 4; ++y) {
            A flat = 0, steep = 0;
            for (std::size_t x = 0; x < 4; ++x) {
              const A a = w(2, x) * value(0, y, x), b = axes[2].taps[x].slope * value(0, y, x);
              flat = x == 0 ? a : flat + a;
              steep = x == 0 ? b : steep + b;
            }
            slope[1] =
                y == 0 ? axes[1].taps[0].slope * flat : slope[1] + axes[1].taps[y].slope * flat;
            slope[2] = y == 0 ? w(1, 0) * steep : slope[2] + w(1, y) * steep;
          }
        }
        for (int d = 0; d < 3; ++d) {
          A size = 0;
          for (std::size_t z = 0; z < axes[0].taps.size(); ++z)
            for (std::size_t y = 0; y < axes[1].taps.size(); ++y)
              for (std::size_t x = 0; x < axes[2].taps.size(); ++x) {
                const std::size_t k[3] = {z, y, x};
                A product = value(z, y, x);
                for (int e = 3 - set.dims; e < 3; ++e)
                  product *=
                      e == d ? axes[e].taps[k[e]].slope_terms : axes[e].taps[k[e]].weight_terms;
                size += std::abs(product);
              }
          terms[d].push_back(g * slope[d]);
          terms_magnitude[d].push_back(std::abs(g) * size);
        }
      }
      for (int d = 3 - set.dims; d < 3; ++d) {
        const auto at = static_cast<std::size_t>((n * set.points() + p) * set.dims + 2 - d);
        if (axes[d].slope == 0 || set.mode == Mode::nearest) continue;
        r.dgrid[at] = pairwise(terms[d], 0, terms[d].size()) * axes[d].slope;
        r.dgrid_magnitude[at] =
            pairwise(terms_magnitude[d], 0, terms[d].size()) * std::abs(axes[d].slope);
      }
    }
  for (auto& element : contributions) {
    std::sort(element.begin(), element.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<A> v;
    for (const auto& [key, value] : element) v.push_back(value);
    r.dinput.push_back(chunked(v));
  }
  return r;
}

}  // namespace planck::reference
