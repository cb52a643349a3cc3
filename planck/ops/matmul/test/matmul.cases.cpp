// Cases of the matmul family: shapes that take every loop, edge and path; every dtype.
#include "planck/ops/matmul/matmul.problem.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/product_cases.h"

namespace planck::verify {

namespace {

struct Extent {
  Shape batch;
  std::int64_t m, n, k;
};

struct Follows {
  bool bias = false, residual = false;
  Activation activation = Activation::none;
};

Case make_case(Dtype element, ProductMath math, const Extent& e, Fill fill, std::uint64_t seed,
               const Follows& follows = {}) {
  Case c{.op = "matmul", .attributes = {}, .inputs = {}, .output_layouts = {}, .seed = seed};
  if (math != default_product_math(element)) c.attributes["math"] = name(math);
  const auto add = [&](std::string_view operand, std::int64_t rows, std::int64_t columns) {
    Shape shape = e.batch;
    shape.push_back(rows);
    shape.push_back(columns);
    c.inputs.push_back({.name = std::string(operand),
                        .dtype = element,
                        .shape = shape,
                        .fill = element == Dtype::s8 ? Fill::integers : fill});
  };
  add("a", e.m, e.k);
  add("b", e.k, e.n);
  if (follows.bias)
    c.inputs.push_back({.name = "bias", .dtype = element, .shape = {e.n}, .fill = fill});
  if (follows.activation != Activation::none) c.attributes["activation"] = name(follows.activation);
  if (follows.residual) add("residual", e.m, e.n);
  return c;
}

const Extent kExtents[] = {
    {{}, 1, 1, 1},          {{}, 0, 3, 4},      {{}, 3, 0, 4},
    {{}, 3, 4, 0},          {{}, 0, 0, 0},      {{}, 1, 1, 0},
    {{}, 2, 2, 2},          {{}, 1, 1, 300},    {{}, 1, 7, 5},
    {{}, 7, 1, 5},          {{}, 5, 7, 1},      {{}, 1, 130, 67},
    {{}, 130, 1, 67},       {{}, 3, 33, 129},   {{}, 13, 17, 31},
    {{}, 12, 32, 8},        {{}, 25, 65, 40},   {{}, 64, 64, 64},
    {{}, 61, 129, 130},     {{}, 129, 61, 33},  {{3}, 4, 5, 6},
    {{0}, 4, 5, 6},         {{2, 3}, 9, 17, 5}, {{5, 1, 2}, 1, 20, 33},
    {{2, 1, 3}, 20, 1, 17}, {{64}, 3, 3, 3},    {{2, 1, 2, 1, 3, 2}, 3, 4, 5},
    {{1}, 70, 30, 20},      {{7}, 16, 16, 16},  {{2}, 35, 66, 9},
    {{}, 2, 1100, 40},
};
// Several threads, packing, sums that wait between steps of k.
const Extent kLargeExtents[] = {{{}, 173, 190, 300}, {{}, 66, 257, 513}, {{2}, 130, 141, 290},
                                {{}, 200, 128, 256}, {{}, 5, 1500, 270}, {{}, 1400, 3, 200},
                                {{40}, 33, 34, 35},  {{}, 255, 129, 200}};
// More than one packed part of C.
const Extent kLengthyExtents[] = {{{}, 2100, 70, 300}, {{}, 70, 2100, 300}, {{}, 1030, 1030, 600}};

}  // namespace

std::vector<Case> matmul_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  // The dtype's own meaning of a product, and for some seeds, or for all, the others it can have.
  const auto add = [&](Dtype element, const Extent& e) {
    for (const ProductMath math : kAllProductMath)
      if (serves(math, element) &&
          (math == default_product_math(element) || size == ListSize::lengthy || seed % 2 == 0))
        cases.push_back(
            make_case(element, math, e, seed % 3 == 0 ? Fill::adversarial : Fill::normal, seed));
    ++seed;
  };
  const auto dtypes = find_op(all_ops(), "matmul")->dtypes;
  const bool lengthy = size == ListSize::lengthy;
  for (const Extent& e : kExtents)
    for (std::size_t k = 0; k < dtypes.size(); ++k)
      if (lengthy || k == 0 || seed % 2 == 0 || (seed + k) % 3 == 0)
        add(dtypes[k].element, e);
      else
        ++seed;
  for (const Extent& e : kLargeExtents)
    for (std::size_t k = 0; k < dtypes.size(); ++k)
      if (lengthy || k == seed % dtypes.size())
        add(dtypes[k].element, e);
      else if (k + 1 == dtypes.size())
        ++seed;
  if (lengthy)
    for (const Extent& e : kLengthyExtents)
      for (const DtypePair& pair : dtypes) add(pair.element, e);
  // With a bias, an activation, a residual: each shape in one dtype and meaning after the other, or
  // in all.
  struct Meaning {
    Dtype element;
    ProductMath math;
  };
  std::vector<Meaning> meanings;
  for (const DtypePair& pair : dtypes)
    for (const ProductMath math : kAllProductMath)
      if (is_float(pair.element) && serves(math, pair.element))
        meanings.push_back({pair.element, math});
  const auto add_followed = [&](const Extent& e) {
    for (std::size_t k = 0; k < meanings.size(); ++k)
      if (lengthy || k == seed % meanings.size() || k == (seed + 3) % meanings.size()) {
        const Fill fill = seed % 3 == 0 ? Fill::adversarial : Fill::normal;
        const auto activation = kAllActivations[(seed + k) % kAllActivations.size()];
        const Follows combined{seed % 4 != 1, (seed + k) % 3 != 0, activation};
        cases.push_back(make_case(meanings[k].element, meanings[k].math, e, fill, seed, {true}));
        if (combined.residual || combined.activation != Activation::none)
          cases.push_back(
              make_case(meanings[k].element, meanings[k].math, e, fill, seed, combined));
      }
    ++seed;
  };
  for (const Extent& e : kExtents) add_followed(e);
  for (const Extent& e : kLargeExtents) add_followed(e);
  return cases;
}

std::optional<Case> matmul_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (op != "matmul") return std::nullopt;
  Extent e{{}, 1, 1, 1};
  const int rank = shape.rank();
  if (rank >= 1) e.k = e.n = shape[rank - 1];
  if (rank >= 2) e.m = shape[rank - 2];
  for (int d = 0; d < rank - 2; ++d) e.batch.push_back(shape[d]);
  return make_case(dtypes.element, default_product_math(dtypes.element), e, Fill::normal, 1);
}

std::optional<Case> matmul_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                   std::uint64_t seed) {
  if (op != "matmul") return std::nullopt;
  const Extent e{{}, shape[0], 5 + static_cast<std::int64_t>(seed) * 9, shape[1]};
  const auto [math, fill] = product_values(dtypes.element, seed);
  return make_case(dtypes.element, math, e, fill, seed);
}

}  // namespace planck::verify
