// One test case: an op with its attributes and inputs, as data. Correctness, speed and replay all
// start from here.
//
// A case is made again from its fields alone, so that id() is enough to find and rerun it: op,
// attributes, inputs and seed, in one line,
//   quantize_per_channel:axis=0,dtype=s8:
//       x=f32.5x7.adversarial,scale=f32.5.scale,zero_point=i32.5.integers:3
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planck/plan/registry.h"
#include "planck/verify/tensors/fill.h"
#include "planck/verify/tensors/layout.h"

namespace planck::verify {

struct CaseInput {
  std::string name;  // as the operand
  Dtype dtype = Dtype::f32;
  Shape shape;
  Fill fill = Fill::normal;
  FillRange range = {};
  Layout layout = Layout::contiguous;
};

struct Case {
  std::string op;
  Attributes attributes;
  std::vector<CaseInput> inputs;
  std::map<std::string, Layout, std::less<>> output_layouts;  // contiguous where not named
  std::uint64_t seed = 0;

  // Rewrites inputs from one another, for values that independent fills would never hit.
  struct Prepare {
    std::string_view name;
    void (*apply)(const Case&, NamedTensors&) = nullptr;
    std::string_view rewrites = {};  // the one input it makes, from shapes alone: benchmarks too
  } prepare = {};

  std::string id() const;
  NamedTensors make_inputs() const;
};

[[nodiscard]] Result<std::unique_ptr<AnyProblem>> parse_problem(std::span<const OpEntry> ops,
                                                                const Case& c);

}  // namespace planck::verify
