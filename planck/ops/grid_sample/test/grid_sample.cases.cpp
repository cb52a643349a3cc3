// Test cases of the grid_sample family: formulas, shapes and grids that its kernels must all
// survive.
#include <fmt/format.h>

#include <algorithm>

#include "planck/ops/grid_sample/test/grids.cases.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

constexpr std::string_view kModes[] = {"bilinear", "nearest", "bicubic"};
constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};

struct SampleFormula {
  int dims = 2;
  std::string_view mode = "bilinear", padding = "zeros";
  bool align = false;
};

std::vector<SampleFormula> all_formulas() {
  std::vector<SampleFormula> all;
  for (int dims : {2, 3})
    for (std::string_view mode : kModes)
      for (std::string_view padding : kPaddings)
        for (bool align : {false, true})
          if (dims == 2 || mode != "bicubic") all.push_back({dims, mode, padding, align});
  return all;
}

// Input [N, C, D, H, W] and output extents; 2-D formulas leave the depths out.
struct SampleExtents {
  std::int64_t n, c, in[3], out[3];
};

constexpr SampleExtents kExtents[] = {
    {2, 3, {3, 5, 7}, {2, 6, 4}},   {1, 1, {1, 1, 1}, {2, 3, 3}},  {1, 4, {2, 8, 6}, {3, 5, 9}},
    {3, 2, {2, 1, 9}, {1, 1, 13}},  {1, 17, {3, 4, 4}, {2, 4, 4}}, {2, 32, {2, 6, 5}, {2, 3, 11}},
    {1, 65, {2, 3, 3}, {1, 5, 2}},  {2, 3, {2, 4, 4}, {2, 0, 5}},  {0, 3, {2, 4, 4}, {2, 3, 5}},
    {2, 0, {2, 4, 4}, {2, 3, 5}},   {1, 8, {4, 2, 2}, {1, 1, 1}},  {1, 3, {5, 9, 2}, {4, 10, 3}},
    {2, 300, {2, 2, 3}, {2, 2, 3}},
};

constexpr SampleExtents kThreadedExtents[] = {{2, 5, {9, 70, 90}, {12, 110, 150}},
                                              {1, 33, {6, 40, 52}, {5, 90, 80}},
                                              {3, 3, {4, 130, 120}, {3, 129, 131}},
                                              {9, 16, {3, 30, 31}, {3, 40, 28}}};

Case sample_case(bool backward, Dtype dtype, const SampleFormula& f, const SampleExtents& e,
                 GridKind kind, bool hostile_values, std::uint64_t seed) {
  Case c{.op = backward ? "grid_sample_backward" : "grid_sample",
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  c.attributes = {{"mode", std::string(f.mode)},
                  {"padding", std::string(f.padding)},
                  {"align_corners", f.align ? "true" : "false"}};
  Shape input = {e.n, e.c}, grid = {e.n}, out = {e.n, e.c};
  for (int d = 3 - f.dims; d < 3; ++d) {
    input.push_back(e.in[d]);
    grid.push_back(e.out[d]);
    out.push_back(e.out[d]);
  }
  grid.push_back(f.dims);
  const Fill fill = hostile_values ? Fill::adversarial : Fill::normal;
  if (backward) c.inputs.push_back({.name = "dout", .dtype = dtype, .shape = out, .fill = fill});
  c.inputs.push_back({.name = "input", .dtype = dtype, .shape = input, .fill = fill});
  c.inputs.push_back({.name = "grid", .dtype = dtype, .shape = grid, .fill = Fill::uniform});
  if (backward && seed % 3 == 1) {
    c.attributes["accumulate"] = "true";
    if (seed % 9 != 4)
      c.inputs.push_back({.name = "dinput", .dtype = dtype, .shape = input, .fill = fill});
    if (seed % 9 != 1)
      c.inputs.push_back({.name = "dgrid", .dtype = dtype, .shape = grid, .fill = fill});
  }
  c.prepare = put_grid(kind);
  return c;
}

Case affine_case(bool backward, Dtype dtype, int dims, const SampleExtents& e, bool align,
                 bool hostile_values, std::uint64_t seed) {
  Case c{.op = backward ? "affine_grid_backward" : "affine_grid",
         .attributes = {{"align_corners", align ? "true" : "false"}},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  const Fill fill = hostile_values ? Fill::adversarial : Fill::normal;
  if (backward) {
    Shape grid = {e.n};
    for (int d = 3 - dims; d < 3; ++d) grid.push_back(e.out[d]);
    grid.push_back(dims);
    c.inputs.push_back({.name = "dgrid", .dtype = dtype, .shape = grid, .fill = fill});
    return c;
  }
  std::string size = fmt::format("{},{}", e.n, e.c);
  for (int d = 3 - dims; d < 3; ++d) size += fmt::format(",{}", e.out[d]);
  c.attributes["size"] = size;
  c.inputs.push_back(
      {.name = "theta", .dtype = dtype, .shape = {e.n, dims, dims + 1}, .fill = fill});
  return c;
}

bool is_affine(std::string_view op) { return op.starts_with("affine_grid"); }
bool is_backward(std::string_view op) { return op.ends_with("_backward"); }
bool is_sampling(std::string_view op) { return is_affine(op) || op.starts_with("grid_sample"); }

// About as many elements as `shape`.
SampleExtents extents_for(const Shape& shape) {
  const std::int64_t count = numel(shape), width = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::int64_t w = std::max<std::int64_t>(1, width);
  const std::int64_t h = std::max<std::int64_t>(1, (count / w + 3) / 4);
  return {1, count == 0 ? 0 : 4, {1, h, w}, {1, h, w}};
}

}  // namespace

std::vector<Case> grid_sample_cases(ListSize size) {
  constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16};
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  const int rounds = size == ListSize::lengthy ? 5 : 1;
  for (bool backward : {false, true}) {
    std::size_t extents = 0, grids = 0;
    for (int round = 0; round < rounds; ++round)
      for (const SampleFormula& formula : all_formulas())
        for (Dtype dtype : kDtypes) {
          cases.push_back(
              sample_case(backward, dtype, formula, kExtents[extents++ % std::size(kExtents)],
                          kAllGrids[grids++ % std::size(kAllGrids)], seed % 4 == 0, seed));
          ++seed;
        }
    // Large enough for several threads.
    const std::vector<SampleFormula> formulas = all_formulas();
    const std::size_t large = size == ListSize::lengthy ? formulas.size() : 6;
    for (std::size_t k = 0; k < large; ++k) {
      cases.push_back(sample_case(backward, kDtypes[seed % 4], formulas[seed % formulas.size()],
                                  kThreadedExtents[k % std::size(kThreadedExtents)],
                                  kAllGrids[(k + 2) % std::size(kAllGrids)], false, seed));
      ++seed;
    }
    cases.push_back(sample_case(backward, Dtype::f32, {}, kThreadedExtents[2], GridKind::one_point,
                                false, seed++));
    for (int round = 0; round < rounds; ++round)
      for (int dims : {2, 3})
        for (bool align : {false, true})
          for (Dtype dtype : kDtypes)
            for (bool hostile : {false, true}) {
              const SampleExtents& e = hostile
                                           ? kExtents[seed % std::size(kExtents)]
                                           : kThreadedExtents[seed % std::size(kThreadedExtents)];
              cases.push_back(affine_case(backward, dtype, dims, e, align, hostile, seed));
              ++seed;
            }
  }
  return cases;
}

std::optional<Case> grid_sample_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (!is_sampling(op)) return std::nullopt;
  const SampleExtents e = extents_for(shape);
  if (is_affine(op)) return affine_case(is_backward(op), dtypes.element, 2, e, false, false, 0);
  return sample_case(is_backward(op), dtypes.element, {}, e, GridKind::affine, false, 0);
}

std::optional<Case> grid_sample_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                        std::uint64_t seed) {
  if (!is_sampling(op)) return std::nullopt;
  const SampleExtents e = extents_for(shape);
  if (is_affine(op))
    return affine_case(is_backward(op), dtypes.element, 2, e, seed % 2 == 1, seed % 3 == 0, seed);
  const std::vector<SampleFormula> formulas = all_formulas();
  constexpr GridKind kKinds[] = {GridKind::hostile, GridKind::random, GridKind::boundaries};
  return sample_case(is_backward(op), dtypes.element, formulas[seed * 7 % 18], e, kKinds[seed % 3],
                     seed % 2 == 0, seed);
}

}  // namespace planck::verify
