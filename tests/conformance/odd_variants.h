// An op as a value, with its attributes as an example of the registry has them, and with each at
// values that nobody would choose. What an attribute is called says which values it gets: an op
// with a new attribute name needs a line here.
#pragma once

#include <limits>

#include "planck/plan/attributes.h"
#include "planck/planck.h"

namespace planck::conformance {

using Pair = std::array<std::int64_t, 2>;
inline constexpr std::int64_t kHuge = std::int64_t{1} << 40;

// ---- odd values, by type ----

inline const std::vector<std::int64_t> kOddCounts = {0,  1,    2,     3,         5,
                                                     -1, -100, kHuge, INT64_MAX, INT64_MIN};
inline const std::vector<std::int64_t> kOddPositions = {0,  1,   2,   -1,        -2,       5,
                                                        99, -99, -10, INT64_MAX, INT64_MIN};
inline const std::vector<int> kOddAxes = {-9, -2, -1, 0, 1, 2, 3, 8, INT32_MAX, INT32_MIN};
inline const std::vector<unsigned> kOddMasks = {0, 1, 2, 3, 7, 0xff, 0x100, ~0u};
inline const std::vector<Pair> kOddPairs = {{0, 0},
                                            {1, 1},
                                            {2, 1},
                                            {3, 2},
                                            {4, 4},
                                            {-1, 1},
                                            {-2, -2},
                                            {9, 9},
                                            {kHuge, kHuge},
                                            {1, kHuge},
                                            {INT64_MAX, INT64_MAX}};
inline const std::vector<Extents> kOddLists = {{},
                                               {0},
                                               {1},
                                               {-1},
                                               {12},
                                               {0, 1},
                                               {1, 0},
                                               {-1, 0},
                                               {0, 0},
                                               {3, -1},
                                               {-5},
                                               {2, 6},
                                               {2, 2, 6},
                                               {2, 0, 1},
                                               {5, -7},
                                               {0, -1},
                                               {-1, -1},
                                               {1, 1, 2, 2},
                                               {2, 1, 4, 4},
                                               {1, 1, 1, 2, 2, 2},
                                               {kHuge, kHuge}};
inline const std::vector<double> kOddNumbers = {0,
                                                -0.0,
                                                -1,
                                                0.5,
                                                3,
                                                1e5,
                                                -1e5,
                                                1e30,
                                                1e-30,
                                                1e300,
                                                std::numeric_limits<double>::infinity(),
                                                -std::numeric_limits<double>::infinity(),
                                                std::numeric_limits<double>::quiet_NaN()};
inline std::vector<Scalar> odd_scalars() {
  std::vector<Scalar> all = {
      1, -1, 127, -129, 256, INT32_MAX, INT64_MAX, INT64_MIN, std::uint64_t{1} << 63};
  for (double v : kOddNumbers) all.emplace_back(v);
  return all;
}
inline std::vector<QuantScheme> odd_schemes() {
  std::vector<QuantScheme> all;
  for (Granularity g : {Granularity::per_tensor, Granularity::per_channel, Granularity::per_token,
                        Granularity::per_group})
    for (Dtype t : {Dtype::s8, Dtype::s4, Dtype::f32})
      for (int axis : {0, -1, -9, 5, INT32_MIN})
        all.push_back({.granularity = g, .axis = axis, .group = axis == -1 ? 3 : axis, .dtype = t});
  all.push_back({.range = IntRange{5, 3}});
  all.push_back({.range = IntRange{INT32_MIN, INT32_MAX}});
  return all;
}
inline const std::vector<Slice> kOddSlices = {
    {{0, 1}, {2, 3}, {1, 2}},          {{1, 5}, {2, 6}, {-1, -1}},
    {{0, 0}, {0, 6}, {1, 1}},          {{0, 0}, {2, 7}, {1, 1}},
    {{-1, 0}, {1, 1}, {1, 1}},         {{0, 0}, {1, 2}, {1, INT64_MAX}},
    {{0, 0}, {-1, 2}, {1, 1}},         {{0}, {1}, {1}},
    {{0, 0, 0}, {3, 4, 5}, {1, 1, 1}}, {{INT64_MAX, INT64_MIN}, {1, 1}, {0, 0}}};

// ---- the op as an example has it ----

inline Extents numbers_in(const std::string& text) {
  Extents found;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find_first_of("x,", from), text.size());
    const auto value = parse_whole(std::string_view(text).substr(from, end - from));
    if (!value || found.rank() == kMaxRank) return {};
    found.push_back(*value);
    from = end + 1;
  }
  return found;
}

// Takes over what a member of the attribute's name can hold.
template <class T>
void take_over(T& t, const Attributes& attributes) {
  const auto given = [&](std::string_view name, auto& member) {
    const auto it = attributes.find(name);
    if (it == attributes.end()) return;
    using M = std::remove_cvref_t<decltype(member)>;
    const Extents list = numbers_in(it->second);
    if constexpr (std::same_as<M, Dtype>) {
      if (const auto dtype = parse_dtype(it->second)) member = *dtype;
    } else if constexpr (std::same_as<M, Extents>) {
      member = list;
    } else if constexpr (std::same_as<M, Pair>) {
      if (list.rank() > 0) member = {list[0], list[list.rank() - 1]};
    } else if (list.rank() == 1 && list[0] >= 0) {  // axes of ops count from the front
      member = static_cast<M>(list[0]);
    }
  };
#define PLANCK_TAKE(name) \
  if constexpr (requires { given("", t.name); }) given(#name, t.name);
  PLANCK_TAKE(axis)
  PLANCK_TAKE(k)
  PLANCK_TAKE(classes)
  PLANCK_TAKE(num_embeddings)
  PLANCK_TAKE(dtype)
  PLANCK_TAKE(shape)
  PLANCK_TAKE(size)
  PLANCK_TAKE(input_size)
  PLANCK_TAKE(group)
#undef PLANCK_TAKE
  if constexpr (requires { t.kernel = Pair{}; }) given("kernel", t.kernel);
  if constexpr (std::same_as<T, Conv2dWeight>) given("kernel", t.size);
  if constexpr (requires { t.options; }) take_over(t.options, attributes);
  if constexpr (requires { t.forward; }) take_over(t.forward, attributes);
  if constexpr (requires { t.scheme; }) take_over(t.scheme, attributes);
}

// The op as it is made without a word. One that cannot be needs a specialization.
template <class Op>
struct Plain {
  static Op made() { return Op{}; }
};
template <class K>
struct Plain<Full<K>> {
  static Full<K> made() { return {1, default_dtype<Cpu, K>, {2, 3}}; }
};

template <class Op>
Op made(const Attributes& attributes) {
  Op op = Plain<Op>::made();
  take_over(op, attributes);
  return op;
}

// ---- the op with odd attributes ----

// Calls f(op) with each member of get(op) at odd values, of nested structures too.
template <class Op, class Get, class F>
void vary(const Attributes& attributes, const Get& get, const F& f) {
  using T = std::remove_cvref_t<decltype(get(std::declval<Op&>()))>;
  const auto with = [&](auto member, const auto& values) {
    for (const auto& v : values) {
      Op op = made<Op>(attributes);
      member(get(op)) = v;
      f(op);
    }
  };
#define PLANCK_VARY(name, Type, values)              \
  if constexpr (requires(T t) {                      \
                  { t.name } -> std::same_as<Type&>; \
                })                                   \
    with(                                            \
        [](T & t) -> auto& { return t.name; }, values);
#define PLANCK_VARY_FLAG(name) PLANCK_VARY(name, bool, (std::array{false, true}))
  PLANCK_VARY(axis, int, kOddAxes)
  PLANCK_VARY(axes, int, kOddAxes)
  PLANCK_VARY(axes, unsigned, kOddMasks)
  PLANCK_VARY(axes, Extents, kOddLists)
  PLANCK_VARY(shape, Shape, kOddLists)
  PLANCK_VARY(size, Shape, kOddLists)
  PLANCK_VARY(dtype, Dtype, kAllDtypes)
  PLANCK_VARY(scheme, QuantScheme, odd_schemes())
  PLANCK_VARY(slice, Slice, kOddSlices)
  PLANCK_VARY(k, std::int64_t, kOddCounts)
  PLANCK_VARY(count, std::int64_t, kOddCounts)
  PLANCK_VARY(classes, std::int64_t, kOddCounts)
  PLANCK_VARY(correction, std::int64_t, kOddCounts)
  PLANCK_VARY(groups, std::int64_t, kOddCounts)
  PLANCK_VARY(window, std::int64_t, kOddCounts)
  PLANCK_VARY(num_embeddings, std::int64_t, kOddCounts)
  PLANCK_VARY(padding_idx, std::int64_t, kOddCounts)
  PLANCK_VARY(ignore_index, std::int64_t, kOddCounts)
  PLANCK_VARY(start, std::int64_t, kOddPositions)
  PLANCK_VARY(stop, std::int64_t, kOddPositions)
  PLANCK_VARY(step, std::int64_t, kOddPositions)
  PLANCK_VARY(kernel, Pair, kOddPairs)
  PLANCK_VARY(stride, Pair, kOddPairs)
  PLANCK_VARY(padding, Pair, kOddPairs)
  PLANCK_VARY(dilation, Pair, kOddPairs)
  PLANCK_VARY(size, Pair, kOddPairs)
  PLANCK_VARY(input_size, Pair, kOddPairs)
  PLANCK_VARY(value, Scalar, odd_scalars())
  PLANCK_VARY(lowest, Scalar, odd_scalars())
  PLANCK_VARY(highest, Scalar, odd_scalars())
  PLANCK_VARY(start, Scalar, odd_scalars())
  PLANCK_VARY(step, Scalar, odd_scalars())
  PLANCK_VARY(slope, double, kOddNumbers)
  PLANCK_VARY(exponent, double, kOddNumbers)
  PLANCK_VARY(eps, double, kOddNumbers)
  PLANCK_VARY(first, double, kOddNumbers)
  PLANCK_VARY(second, double, kOddNumbers)
  PLANCK_VARY(scale, std::optional<double>, kOddNumbers)
  PLANCK_VARY(seed, std::uint64_t, (std::array{UINT64_MAX}))
  PLANCK_VARY(offset, std::uint64_t, (std::array{UINT64_MAX}))
  PLANCK_VARY_FLAG(reverse)
  PLANCK_VARY_FLAG(descending)
  PLANCK_VARY_FLAG(largest)
  PLANCK_VARY_FLAG(symmetric)
  PLANCK_VARY_FLAG(align_corners)
  PLANCK_VARY_FLAG(include_last_offset)
  PLANCK_VARY_FLAG(ceil_mode)
  PLANCK_VARY_FLAG(count_include_pad)
  PLANCK_VARY_FLAG(causal)
  PLANCK_VARY_FLAG(residual)
  PLANCK_VARY(activation, Activation, kAllActivations)
  PLANCK_VARY(mode, SampleMode,
              (std::array{SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic}))
  PLANCK_VARY(padding, SamplePadding,
              (std::array{SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection}))
  PLANCK_VARY(math, std::optional<ProductMath>,
              (std::array{ProductMath::chain, ProductMath::exact, ProductMath::tensor_core}))
  PLANCK_VARY(kernel, std::string_view,
              (std::array<std::string_view, 2>{"cpu:imagined", "cuda:cublaslt"}))
#undef PLANCK_VARY_FLAG
#undef PLANCK_VARY
  if constexpr (requires(T t) {
                  t.before = Extents{};
                  t.after = Extents{};
                })
    for (const Extents& w : {Extents{}, Extents{1}, Extents{0, 2}, Extents{-1, 1}, Extents{-9, 0},
                             Extents{kHuge, kHuge}, Extents{INT64_MAX, INT64_MAX}}) {
      Op op = made<Op>(attributes);
      get(op).before = get(op).after = w;
      f(op);
    }
  if constexpr (requires(T t) { t.options; })
    vary<Op>(
        attributes, [&](Op & op) -> auto& { return get(op).options; }, f);
  if constexpr (requires(T t) { t.forward; })
    vary<Op>(
        attributes, [&](Op & op) -> auto& { return get(op).forward; }, f);
  if constexpr (requires(T t) {
                  { t.slice } -> std::same_as<SliceAxis&>;
                })
    vary<Op>(
        attributes, [&](Op & op) -> auto& { return get(op).slice; }, f);
}

// Calls f(op) for the op as it is made, as an example has it, and with odd attributes.
template <class Op, class F>
void for_each_variant(const Attributes& attributes, const F& f) {
  f(Plain<Op>::made());
  f(made<Op>(attributes));
  vary<Op>(
      attributes, [](Op & op) -> auto& { return op; }, f);
}

}  // namespace planck::conformance
