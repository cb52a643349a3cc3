// Cases of the conv family: kernels, strides, borders and groups that take every path; every dtype
// and meaning of a product.
#include <fmt/format.h>

#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/product_cases.h"

namespace planck::verify {

namespace {

struct Convolution {
  Shape x, weight;
  Conv2dOptions options = {};
};

constexpr std::string_view kOps[] = {"conv2d", "conv2d_input", "conv2d_weight"};

std::string pair(const std::array<std::int64_t, 2>& p) { return fmt::format("{}x{}", p[0], p[1]); }

Case make_case(std::string_view op, Dtype element, ProductMath math, const Convolution& v,
               Fill fill, std::uint64_t seed) {
  const ConvProblem p{ConvKind::conv2d, element, v.x, v.weight, v.options};
  Case c{.op = std::string(op), .attributes = {}, .inputs = {}, .output_layouts = {}, .seed = seed};
  if (math != default_product_math(element)) c.attributes["math"] = name(math);
  const Conv2dOptions none;
  const auto& o = v.options;
  if (o.stride != none.stride) c.attributes["stride"] = pair(o.stride);
  if (o.padding != none.padding) c.attributes["padding"] = pair(o.padding);
  if (o.dilation != none.dilation) c.attributes["dilation"] = pair(o.dilation);
  if (o.groups != 1) c.attributes["groups"] = std::to_string(o.groups);
  const auto add = [&](std::string_view operand, const Shape& shape) {
    c.inputs.push_back({.name = std::string(operand),
                        .dtype = element,
                        .shape = shape,
                        .fill = element == Dtype::s8 ? Fill::integers : fill});
  };
  if (op == kOps[1]) c.attributes["size"] = pair({v.x[2], v.x[3]});
  if (op == kOps[2]) c.attributes["kernel"] = pair({v.weight[2], v.weight[3]});
  if (op != kOps[1]) add("x", v.x);
  if (op != kOps[0]) add("dy", p.y());
  if (op != kOps[2]) add("weight", v.weight);
  return c;
}

const Convolution kAll[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}},
    {{2, 3, 5, 7}, {4, 3, 3, 3}},
    {{2, 3, 5, 7}, {4, 3, 3, 3}, {.padding = {1, 1}}},
    {{3, 2, 9, 6}, {5, 2, 3, 2}, {.stride = {2, 2}, .padding = {1, 0}}},
    {{1, 2, 8, 11}, {3, 2, 2, 3}, {.stride = {3, 2}, .padding = {0, 2}}},
    {{2, 2, 9, 10}, {3, 2, 3, 3}, {.padding = {2, 1}, .dilation = {2, 3}}},
    {{1, 2, 13, 12}, {2, 2, 3, 2}, {.stride = {2, 3}, .padding = {3, 1}, .dilation = {3, 2}}},
    {{2, 4, 6, 5}, {6, 2, 3, 3}, {.padding = {1, 1}, .groups = 2}},
    {{2, 5, 4, 4}, {10, 1, 3, 3}, {.padding = {1, 1}, .groups = 5}},
    {{2, 7, 3, 5}, {9, 7, 1, 1}},
    {{2, 3, 6, 6}, {4, 3, 1, 1}, {.stride = {2, 2}}},
    {{2, 2, 2, 3}, {3, 2, 5, 7}, {.padding = {2, 2}}},  // a kernel larger than the image
    {{1, 1, 1, 1}, {2, 1, 3, 3}, {.padding = {4, 5}}},  // places that see zeros alone
    {{0, 3, 5, 5}, {4, 3, 3, 3}},
    {{2, 0, 4, 4}, {3, 0, 2, 2}},
    {{2, 3, 4, 4}, {0, 3, 2, 2}},
    {{2, 3, 0, 4}, {2, 3, 1, 2}, {.padding = {1, 0}}},
    {{8, 16, 0, 4}, {17, 16, 1, 2}, {.padding = {1, 0}}},  // as many channels as any kernel wants
    {{1, 2, 4, 70}, {2, 2, 1, 9}, {.padding = {0, 4}}},
    {{1, 2, 40, 3}, {2, 2, 9, 1}, {.stride = {4, 1}}},
    {{5, 3, 7, 9}, {13, 3, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}}},
    {{2, 1, 1, 2}, {2, 1, 3, 3}, {.stride = {9, 9}, .padding = {5, 6}}},  // all in the border
    {{1, 2, 5, 5}, {2, 2, 2, 2}, {.stride = {7, 6}, .padding = {3, 2}}},  // taps that meet nothing
};
// Several threads, several steps of k, chunks, more rows than a task has.
const Convolution kLarge[] = {
    {{3, 17, 6, 7}, {18, 17, 3, 2}, {.stride = {2, 1}, .padding = {1, 1}}},  // blocks of one tap
    {{9, 5, 17, 15}, {20, 5, 3, 3}, {.padding = {1, 1}}},
    {{5, 33, 8, 8}, {17, 33, 3, 3}, {.padding = {1, 1}}},  // places in whole vectors
    {{2, 40, 9, 9}, {33, 40, 3, 3}, {.padding = {1, 1}}},
    {{3, 130, 5, 6}, {125, 130, 2, 2}, {.stride = {2, 1}}},
    {{40, 6, 12, 12}, {8, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
};
const Convolution kLengthy[] = {
    {{64, 16, 16, 16}, {32, 16, 3, 3}, {.padding = {1, 1}}},
    {{8, 64, 28, 28}, {128, 64, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{4, 96, 30, 30}, {96, 1, 7, 7}, {.padding = {3, 3}, .groups = 96}},
    {{2, 12, 260, 300}, {16, 12, 5, 5}, {.padding = {4, 4}, .dilation = {2, 2}}},
};

}  // namespace

std::vector<Case> conv_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  const bool lengthy = size == ListSize::lengthy;
  const auto add = [&](const Convolution& v, bool all) {
    for (std::string_view op : kOps) {
      const auto dtypes = find_op(all_ops(), op)->dtypes;
      for (std::size_t k = 0; k < dtypes.size(); ++k, ++seed)
        if (all || k == 0 || k == 1 + seed / dtypes.size() % (dtypes.size() - 1))
          for (const ProductMath math : kAllProductMath) {
            const Dtype element = dtypes[k].element;
            const bool own = math == default_product_math(element);
            if (serves(math, element) && (own || lengthy || seed % 3 != 0))
              cases.push_back(make_case(op, element, math, v,
                                        seed % 4 == 3 ? Fill::adversarial : Fill::normal, seed));
          }
    }
  };
  for (const Convolution& v : kAll) add(v, lengthy);
  for (const Convolution& v : kLarge) add(v, lengthy);
  if (lengthy)
    for (const Convolution& v : kLengthy) add(v, true);
  return cases;
}

namespace {

// The last axes of a shape are width, height and channels, what comes before them images.
Convolution around(const Shape& shape, std::int64_t filters) {
  std::int64_t axes[4] = {1, 1, 1, 1};
  for (int d = shape.rank() - 1, at = 3; d >= 0; --d, at -= at > 0) axes[at] *= shape[d];
  Convolution v{{axes[0], axes[1], axes[2], axes[3]}, {filters, axes[1], 1, 1}};
  for (int axis = 0; axis < 2; ++axis) {
    v.options.padding[static_cast<std::size_t>(axis)] = 1;
    if (v.x[2 + axis] > 0) v.weight[2 + axis] = 3;
  }
  return v;
}

bool is_ours(std::string_view op) {
  for (std::string_view ours : kOps)
    if (op == ours) return true;
  return false;
}

}  // namespace

std::optional<Case> conv_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (!is_ours(op)) return std::nullopt;
  return make_case(op, dtypes.element, default_product_math(dtypes.element), around(shape, 4),
                   Fill::normal, 1);
}

std::optional<Case> conv_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  if (!is_ours(op)) return std::nullopt;
  const auto [math, fill] = product_values(dtypes.element, seed);
  return make_case(op, dtypes.element, math, around(shape, 1 + static_cast<std::int64_t>(seed % 5)),
                   fill, seed);
}

}  // namespace planck::verify
