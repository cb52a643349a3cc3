#include "tests/conformance/odd_cases.h"

#include <fmt/format.h>

#include "planck/math/philox.h"
#include "planck/verify/case_lists.h"

namespace planck::conformance {

namespace {

const Shape kUsual = {2, 6};
constexpr std::int64_t kHuge = std::int64_t{1} << 40;
const Shape kShapes[] = {{},           {0},
                         {1},          {7},
                         {0, 0},       {1, 0},
                         {0, 3},       {3, 1},
                         {2, 6},       {1, 1, 1},
                         {2, 0, 3},    {1, 2, 3, 4},
                         {2, 4, 0, 5}, {1, 1, 1, 1, 1, 1, 1, 1},
                         {kHuge, 0},   {2, 1, 2, 1, 2, 1, 2, 2},
                         {kHuge, 64},  {kHuge, kHuge},
                         {3, 4, 5},    {1, 2, 3, 4, 5}};

constexpr std::string_view kValues[] = {"",
                                        "0",
                                        "1",
                                        "-1",
                                        "2",
                                        "-2",
                                        "3",
                                        "7",
                                        "-9",
                                        "64",
                                        "2147483647",
                                        "2147483648",
                                        "-2147483648",
                                        "4294967296",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "99999999999999999999",
                                        "0.5",
                                        "1e30",
                                        "1e300",
                                        "inf",
                                        "-inf",
                                        "nan",
                                        "true",
                                        "false",
                                        "x",
                                        "1x1",
                                        "1,1",
                                        "0x0",
                                        "0,0",
                                        "-1,-1",
                                        "2,3",
                                        "1,2,3",
                                        "9223372036854775807,9223372036854775807",
                                        "2147483647,2147483647",
                                        "1x2x3x4x5x6x7x8x9",
                                        "1,2,3,4,5,6,7,8,9",
                                        "4294967296x4294967296x4294967296",
                                        "0x4294967296",
                                        "1,1,1,1",
                                        "f64",
                                        "f16",
                                        "i32",
                                        "bool",
                                        "s4",
                                        "u8"};

class Generator {
 public:
  Generator(const OpEntry& entry, const std::function<void(const OddCase&)>& f)
      : entry_(entry), f_(f) {}

  void all() {
    usual_ = example(entry_.dtypes[0], kUsual);
    for (std::size_t k = 0; k < std::size(kShapes); ++k)
      give(example(entry_.dtypes[k % entry_.dtypes.size()], kShapes[k]));
    dtypes(usual_);
    dtypes(example(entry_.dtypes[0], {0}));
    shapes();
    attributes();
  }

 private:
  // The op on tensors about as large as `shape`, as it is meant to be used.
  OddCase example(const DtypePair& pair, const Shape& shape) const {
    OddCase c{std::string(entry_.info->name), {}, {}};
    Shape small = shape;
    for (int d = 0; d < small.rank(); ++d) small[d] = std::min<std::int64_t>(small[d], 8);
    const auto usual = verify::example_case(entry_.info->name, pair, small);
    if (!usual) return c;
    c.attributes = usual->attributes;
    for (const auto& input : usual->inputs) c.inputs[input.name] = {input.dtype, input.shape};
    return c;
  }

  // Every dtype for every operand: all pairs of operands at once, the others as usual.
  void dtypes(const OddCase& from) {
    for (const Dtype t : kAllDtypes) {
      OddCase c = from;
      for (auto& [name, spec] : c.inputs) spec.dtype = t;
      give(c);
      for (auto& [first, at_first] : from.inputs)
        for (auto& [second, at_second] : from.inputs) {
          if (!(first < second) && from.inputs.size() > 1) continue;
          for (const Dtype u : kAllDtypes) {
            c = from;
            c.inputs[first].dtype = t;
            c.inputs[second].dtype = u;
            give(c);
          }
        }
    }
  }

  // Every shape for every operand, for all of them, and for pairs.
  void shapes() {
    for (const Shape& s : kShapes) {
      OddCase c = usual_;
      for (auto& [name, spec] : c.inputs) spec.shape = s;
      give(c);
      for (auto& [first, at_first] : usual_.inputs)
        for (auto& [second, at_second] : usual_.inputs) {
          if (second < first) continue;
          for (const Shape& t : kShapes) {
            c = usual_;
            c.inputs[first].shape = s;
            c.inputs[second].shape = t;
            give(c);
            if (first == second) break;
          }
        }
    }
  }

  // Every value for every attribute, alone and beside another, on every dtype.
  void attributes() {
    const auto infos = entry_.info->attributes;
    for (const DtypePair& pair : entry_.dtypes)
      for (const Shape& shape : {kUsual, Shape{0}, Shape{}}) {
        const OddCase usual = example(pair, shape);
        for (const AttributeInfo& a : infos)
          for (std::string_view value : kValues) {
            OddCase c = usual;
            c.attributes[std::string(a.name)] = value;
            give(c);
          }
      }
    if (infos.size() < 2) return;
    const PhiloxStream random{11, 0};
    for (std::uint64_t i = 0; i < 200; ++i) {
      const Philox4 r = random.words(i);
      OddCase c = example(entry_.dtypes[r.v[3] % entry_.dtypes.size()], kUsual);
      c.attributes[std::string(infos[r.v[0] % infos.size()].name)] =
          kValues[r.v[1] % std::size(kValues)];
      c.attributes[std::string(infos[(r.v[0] >> 8) % infos.size()].name)] =
          kValues[r.v[2] % std::size(kValues)];
      give(c);
    }
  }

  void give(OddCase c) {
    c.seed = ++given_;
    f_(c);
  }

  const OpEntry& entry_;
  const std::function<void(const OddCase&)>& f_;
  OddCase usual_;
  std::uint64_t given_ = 0;
};

}  // namespace

std::string OddCase::text() const {
  std::string out = op;
  for (const auto& [name, spec] : inputs)
    out += fmt::format(" {}={}{}", name, planck::name(spec.dtype), to_string(spec.shape));
  for (const auto& [name, value] : attributes) out += fmt::format(" --set {}={}", name, value);
  return fmt::format("{} (values {})", out, seed);
}

void for_each_odd_case(const OpEntry& entry, const std::function<void(const OddCase&)>& f) {
  Generator(entry, f).all();
}

}  // namespace planck::conformance
