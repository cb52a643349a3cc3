// Cases of the attention family: blocks, panels, groups, masks and limits that take every path;
// every dtype.
#include <algorithm>

#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

enum class Mask : std::uint8_t { none, hidden, added };

struct Extent {
  std::int64_t n, h, g, l, s, d, e;
  bool causal = false;
  std::int64_t window = 0;
  Mask mask = Mask::none;
  std::string_view more = {};  // attributes, as "alibi=true soft_cap=2"
};

constexpr std::string_view kOps[] = {"attention", "attention_backward"};

Case make_case(std::string_view op, Dtype element, std::optional<ProductMath> math, const Extent& x,
               bool hostile, std::uint64_t seed) {
  Case c{.op = std::string(op), .attributes = {}, .inputs = {}, .output_layouts = {}, .seed = seed};
  if (math) c.attributes["math"] = name(*math);
  if (x.causal) c.attributes["causal"] = "true";
  if (x.window > 0) c.attributes["window"] = std::to_string(x.window);
  if (seed % 5 == 4) c.attributes["scale"] = "0.75";
  for (std::string_view rest = x.more; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size()), is = rest.find('=');
    c.attributes[std::string(rest.substr(0, is))] = rest.substr(is + 1, end - is - 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Fill fill = hostile ? Fill::adversarial : Fill::normal;
  const auto add = [&](std::string_view operand, Dtype dtype, const Shape& shape) {
    c.inputs.push_back(
        {.name = std::string(operand), .dtype = dtype, .shape = shape, .fill = fill});
  };
  add("q", element, {x.n, x.h, x.l, x.d});
  add("k", element, {x.n, x.g, x.s, x.d});
  add("v", element, {x.n, x.g, x.s, x.e});
  if (x.mask != Mask::none)
    add("mask", x.mask == Mask::hidden ? Dtype::boolean : element, {x.n, x.h, x.l, x.s});
  if (op == kOps[0]) return c;
  add("y", element, {x.n, x.h, x.l, x.e});
  add("lse", compute_dtype(element), {x.n, x.h, x.l});
  add("dy", element, {x.n, x.h, x.l, x.e});
  return c;
}

const Extent kExtents[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {1, 1, 1, 2, 3, 4, 5},
    {1, 2, 1, 0, 3, 4, 5},
    {1, 2, 1, 3, 0, 4, 5},
    {0, 2, 1, 3, 3, 4, 5},
    {1, 0, 1, 3, 3, 4, 5},
    {2, 4, 2, 5, 7, 16, 8},
    {1, 6, 2, 3, 130, 17, 9},
    {1, 1, 1, 40, 33, 8, 32, true},
    {1, 2, 2, 4, 150, 8, 12, true},
    {1, 2, 1, 9, 4, 8, 12, true},
    {1, 2, 1, 37, 140, 8, 12, true, 20},
    {2, 2, 1, 5, 6, 8, 4, false, 0, Mask::hidden},
    {2, 2, 1, 5, 131, 8, 4, false, 0, Mask::added},
    {1, 2, 2, 20, 20, 8, 4, true, 7, Mask::added},
    {1, 1, 1, 3, 5, 256, 3},
    {1, 1, 1, 3, 5, 3, 256},
    {2, 2, 1, 35, 140, 8, 4, true, 0, Mask::none, "soft_cap=1.5"},
    {2, 6, 2, 5, 131, 8, 4, false, 0, Mask::hidden, "alibi=true"},
    {1, 3, 1, 37, 37, 8, 4, true, 20, Mask::added, "alibi=true soft_cap=20"},
    {2, 2, 1, 35, 131, 8, 4, false, 0, Mask::none, "dropout=0.25 seed=9 offset=4"},
    {1, 2, 1, 20, 20, 8, 4, true, 7, Mask::hidden, "dropout=0.5 alibi=true soft_cap=2"},
    {1, 2, 1, 40, 150, 8, 4, true, 0, Mask::none,
     "query_offsets=0,3,3,39,40 key_offsets=0,4,9,150,150"},
    {2, 2, 1, 9, 12, 8, 4, false, 0, Mask::added,
     "query_offsets=0,5,9 key_offsets=0,3,12 dropout=0.25 alibi=true"},
    {1, 2, 1, 0, 0, 8, 4, false, 0, Mask::none, "query_offsets=0 key_offsets=0"},
};
// More than one panel, block and task.
const Extent kLarge[] = {
    {2, 4, 2, 140, 270, 64, 64, true},
    {1, 2, 1, 70, 300, 128, 96},
    {2, 2, 2, 65, 65, 33, 20, false, 0, Mask::hidden},
};
const Extent kLengthy[] = {
    {2, 8, 2, 512, 512, 64, 64, true},
    {1, 2, 1, 1, 5000, 128, 128, true},
    {1, 4, 4, 700, 900, 128, 128, true, 200},
};

}  // namespace

std::vector<Case> attention_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  const bool lengthy = size == ListSize::lengthy;
  const auto add = [&](const Extent& x, bool all) {
    for (std::string_view op : kOps) {
      const auto dtypes = find_op(all_ops(), op)->dtypes;
      for (std::size_t k = 0; k < dtypes.size(); ++k, ++seed) {
        const Dtype element = dtypes[k].element;
        if (!all && k != seed / dtypes.size() % dtypes.size()) continue;
        cases.push_back(make_case(op, element, std::nullopt, x, seed % 3 == 0, seed));
        for (const ProductMath math : {ProductMath::chain, ProductMath::tensor_core})
          if (serves(math, element) && math != default_product_math(element) &&
              (lengthy || seed % 2 == 0))
            cases.push_back(make_case(op, element, math, x, seed % 3 == 1, seed));
      }
    }
  };
  for (const Extent& x : kExtents) add(x, true);
  for (const Extent& x : kLarge) add(x, lengthy);
  if (lengthy)
    for (const Extent& x : kLengthy) add(x, false);
  return cases;
}

namespace {

// The last axes of a shape are width, queries and heads, what comes before them batches.
Extent around(const Shape& shape, std::int64_t more_keys) {
  std::int64_t axes[4] = {1, 1, 1, 1};
  for (int d = shape.rank() - 1, at = 3; d >= 0; --d, at -= at > 0) axes[at] *= shape[d];
  const std::int64_t width = std::clamp<std::int64_t>(axes[3], 1, 64);
  return {axes[0], axes[1], axes[1] == 0 ? 1 : axes[1], axes[2], axes[2] + more_keys, width, width};
}

bool is_ours(std::string_view op) { return op == kOps[0] || op == kOps[1]; }

}  // namespace

std::optional<Case> attention_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (!is_ours(op)) return std::nullopt;
  return make_case(op, dtypes.element, std::nullopt, around(shape, 0), false, 1);
}

std::optional<Case> attention_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                      std::uint64_t seed) {
  if (!is_ours(op)) return std::nullopt;
  Extent x = around(shape, static_cast<std::int64_t>(seed % 3));
  x.s = std::min<std::int64_t>(x.s, 300);
  x.causal = seed % 4 == 3;
  if (seed % 4 == 2) x.mask = Mask::hidden;
  return make_case(op, dtypes.element, std::nullopt, x, seed % 2 == 1, seed);
}

}  // namespace planck::verify
