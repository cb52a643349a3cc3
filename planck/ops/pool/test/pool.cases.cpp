// Test cases of the pool family: windows that fit, overlap, leave gaps, hang over; ties, NaN,
// strays.
#include <fmt/format.h>

#include "planck/math/philox.h"
#include "planck/ops/ops.h"
#include "planck/ops/pool/pool.problem.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Windows {
  PoolOptions options;
  PoolPair size;  // adaptive ones
};

enum class Values : std::uint8_t { ordinary, wild, few };
constexpr Values kAllValues[] = {Values::ordinary, Values::wild, Values::few};

bool pools(std::string_view op) { return op.find("_pool2d") != op.npos; }

std::string text(const PoolPair& pair) { return fmt::format("{},{}", pair[0], pair[1]); }

PoolPair pair_of(const Case& c, std::string_view name, std::int64_t otherwise) {
  const auto it = c.attributes.find(name);
  if (it == c.attributes.end()) return {otherwise, otherwise};
  const std::size_t comma = it->second.find(',');
  const std::int64_t first = std::stoll(it->second);
  return {first, comma == std::string::npos ? first : std::stoll(it->second.substr(comma + 1))};
}

// Indices as a forward could have left them: a tap of the window each, wherever that lies, and a
// few that are no pixel of it.
void put_indices(const Case& c, NamedTensors& tensors) {
  const auto found = tensors.find("indices");
  if (found == tensors.end()) return;
  HostTensor& indices = found->second;
  const PoolPair image = pair_of(c, "input_size", 1), kernel = pair_of(c, "kernel", 1),
                 padding = pair_of(c, "padding", 0), dilation = pair_of(c, "dilation", 1);
  PoolPair stride = pair_of(c, "stride", 0);
  for (std::size_t a : {0u, 1u})
    if (stride[a] == 0) stride[a] = kernel[a];
  const PhiloxStream random{c.seed, 43};
  const std::int64_t rows = indices.shape[indices.shape.rank() - 2],
                     columns = indices.shape[indices.shape.rank() - 1];
  for (std::int64_t i = 0; i < indices.count(); ++i) {
    const auto words = random.words(static_cast<std::uint64_t>(i));
    const auto tap = [&](std::size_t a, std::int64_t o) {
      return o * stride[a] - padding[a] + words.v[a] % kernel[a] * dilation[a];
    };
    const std::int64_t h = tap(0, i / columns % rows), w = tap(1, i % columns);
    const std::int64_t strays[] = {-1, image[0] * image[1], INT32_MIN, INT32_MAX, 0};
    const bool stray = words.v[2] % 16 == 0 || h < 0 || w < 0 || h >= image[0] || w >= image[1];
    indices.set_number(
        i, static_cast<double>(stray ? strays[words.v[3] % std::size(strays)] : h * image[1] + w));
  }
}

// Few values, among them both zeros and NaN.
void put_ties(const Case& c, NamedTensors& tensors) {
  HostTensor& x = tensors.begin()->second;
  constexpr double kFew[] = {0.0, -0.0, 1.0, -1.0, 1.0, -2.0, 0.5, 1.0};
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::uint64_t r = x.pattern(i) * 0x9e3779b97f4a7c15u + c.seed;
    x.set_number(i, x.dtype == Dtype::s8 ? 2 * kFew[r >> 61] : kFew[r >> 61]);
    if (is_float(x.dtype) && (r >> 50) % 16 == 0)
      x.set_pattern(i, ~std::uint64_t{0} >> (64 - bits(x.dtype)));
  }
}

// Nothing where the windows do not fit the images.
std::optional<Case> make_case(const OpInfo& info, Dtype dtype, const Shape& shape,
                              const Windows& windows, Values values, std::uint64_t seed) {
  std::size_t kind = 0;
  for (const OpEntry& entry : pool_ops()) {
    if (entry.info->name == info.name) break;
    ++kind;
  }
  PoolProblem p{.kind = static_cast<PoolKind>(kind),
                .element_dtype = dtype,
                .x = shape,
                .options = windows.options,
                .size = windows.size};
  if (!p.largest()) p.options.dilation = {1, 1};
  if (!p.check()) return std::nullopt;
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  for (const AttributeInfo& a : info.attributes) {
    std::string value;
    if (a.name == "kernel") value = text(p.options.kernel);
    if (a.name == "stride") value = text(p.options.stride);
    if (a.name == "padding") value = text(p.options.padding);
    if (a.name == "dilation") value = text(p.options.dilation);
    if (a.name == "ceil_mode") value = p.options.ceil_mode ? "true" : "false";
    if (a.name == "count_include_pad") value = p.options.count_include_pad ? "true" : "false";
    if (a.name == "size") value = text(p.size);
    if (a.name == "input_size") value = text({shape[shape.rank() - 2], shape[shape.rank() - 1]});
    if (value != a.default_value && value != fmt::format("{0},{0}", a.default_value))
      c.attributes[std::string(a.name)] = value;
  }
  const auto specs = p.specs();
  for (std::size_t i = 0; i < info.operands.size(); ++i) {
    if (info.operands[i].role != Role::input) continue;
    CaseInput in{.name = std::string(info.operands[i].name),
                 .dtype = specs[i].dtype,
                 .shape = specs[i].shape};
    if (!is_float(in.dtype)) in.fill = Fill::integers;
    if (is_float(in.dtype) && values == Values::wild) in.fill = Fill::adversarial;
    c.inputs.push_back(in);
  }
  if (p.kind == PoolKind::max_pool2d_backward)
    c.prepare = {"indices", put_indices, "indices"};
  else if (values == Values::few)
    c.prepare = {"ties", put_ties};
  return c;
}

const Shape kShapes[] = {{1, 1},       {2, 2},        {2, 3, 8, 8},   {3, 16, 16},     {0, 3, 4, 4},
                         {5, 7},       {1, 2, 9, 13}, {2, 12, 35},    {2, 1, 2, 6, 5}, {33, 66},
                         {3, 1, 1, 9}, {2, 10, 1},    {2, 2, 14, 14}, {1, 6, 1030}};
const Shape kThreadedShapes[] = {{8, 32, 32, 32}, {2, 500, 301}, {600, 17, 16}};

// Every way windows can lie, and a number of adaptive ones with each.
std::vector<Windows> all_windows() {
  std::vector<Windows> all = {
      {{.kernel = {2, 2}}, {1, 1}},
      {{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {2, 2}},
      {{.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 1}}, {3, 4}},
      {{.kernel = {1, 1}}, {1, 2}},
      {{.kernel = {2, 3}, .stride = {4, 5}, .padding = {1, 1}}, {5, 1}},
      {{.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {2, 3}}, {4, 3}},
      {{.kernel = {2, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {5, 3}}, {9, 40}},
      {{.kernel = {5, 4}, .stride = {3, 3}, .padding = {2, 0}}, {7, 7}}};
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    Windows w = all[i];
    w.options.ceil_mode = true;
    w.options.count_include_pad = i % 2 == 0;
    w.size = {w.size[1] + 1, w.size[0]};
    all.push_back(w);
    w.options.ceil_mode = false;
    w.options.count_include_pad = false;
    w.size = {w.size[1] * 2, 3};
    all.push_back(w);
  }
  return all;
}

// Windows for any image: 2 x 2, fewer where it is thinner.
Windows fitting(const Shape& shape) {
  const auto up_to = [&](int d, std::int64_t most) {
    const std::int64_t in = shape[shape.rank() - d];
    return in < most ? in : most;
  };
  Windows w{{.kernel = {up_to(2, 2), up_to(1, 2)}}, {1, 1}};
  for (int d : {2, 1}) {
    const std::int64_t in = shape[shape.rank() - d];
    w.size[static_cast<std::size_t>(2 - d)] = in / 2 > 0 ? in / 2 : 1;
  }
  return w;
}

// A shape that has images.
Shape imaged(const Shape& shape) {
  Shape s = shape;
  while (s.rank() < 2) s.push_back(1);
  for (int d : {2, 1})
    if (s[s.rank() - d] < 1) s[s.rank() - d] = 1;
  return s;
}

}  // namespace

std::vector<Case> pool_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  const std::vector<Windows> windows = all_windows();
  for (const OpEntry& entry : all_ops()) {
    if (!pools(entry.info->name)) continue;
    const auto add = [&](const Shape& shape, const Windows& w) {
      const Dtype dtype = entry.dtypes[seed % entry.dtypes.size()].element;
      const Values values = kAllValues[seed / 2 % std::size(kAllValues)];
      if (auto c = make_case(*entry.info, dtype, shape, w, values, seed)) {
        cases.push_back(*c);
        ++seed;
      }
    };
    const std::size_t step = size == ListSize::lengthy ? 1 : 4;
    std::size_t turn = 0;
    for (const Shape& shape : kShapes)
      for (const Windows& w : windows)
        if (turn++ % step == 0 || w.options.kernel == PoolPair{2, 2}) add(shape, w);
    for (const Shape& shape : kThreadedShapes)
      for (std::size_t i = 0; i < 2 * (size == ListSize::lengthy ? 6u : 1u); ++i)
        add(shape, windows[i]);
  }
  return cases;
}

std::optional<Case> pool_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || !pools(op)) return std::nullopt;
  const Shape x = imaged(shape);
  return make_case(*entry->info, dtypes.element, x, fitting(x), Values::ordinary, 0);
}

std::optional<Case> pool_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || !pools(op)) return std::nullopt;
  const Shape x = imaged(shape);
  const std::vector<Windows> windows = all_windows();
  const Values values = seed % 2 == 0 ? Values::wild : Values::few;
  if (seed > 0)
    if (auto c = make_case(*entry->info, dtypes.element, x, windows[seed % windows.size()], values,
                           seed))
      return c;
  return make_case(*entry->info, dtypes.element, x, fitting(x), values, seed);
}

}  // namespace planck::verify
