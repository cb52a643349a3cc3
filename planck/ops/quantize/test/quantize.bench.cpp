// Shapes of the quantize family worth timing: a large matrix for bandwidth, 1,024 elements for the
// cost of one call.
#include "planck/ops/ops.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

constexpr Shape kMatrix = {8192, 8192};
constexpr Shape kSmall = {8, 128};

// Target in milliseconds for kMatrix on one H200, where one is set.
double aim(std::string_view op, DtypePair dtypes) {
  if (dtypes.aux != Dtype::s8) return 0;
  const bool f32 = dtypes.element == Dtype::f32, bf16 = dtypes.element == Dtype::bf16;
  if (op == "quantize_per_channel") return f32 ? 0.080 : bf16 ? 0.050 : 0;
  if (op == "quantize_per_tensor" ||
      (op.starts_with("dequantize_per") && !op.ends_with("_backward")))
    return f32 ? 0.080 : 0;
  if (op == "quantize_per_channel_backward") return f32 ? 0.188 : 0;
  if (op == "fake_quantize_per_channel") return f32 ? 0.130 : 0;
  if (op == "dynamic_quantize_per_token") return bf16 ? 0.055 : 0;
  return 0;
}

struct Variant {
  std::string_view axis = "";  // per_channel
  bool learnable = false, transposed = false, small = false;
};

BenchCase make_bench(const OpInfo& info, DtypePair dtypes, const Variant& v) {
  BenchCase bench{.test_case = *quantize_example(info.name, dtypes, v.small ? kSmall : kMatrix),
                  .call = v.small,
                  .cpu_share = v.transposed ? 0.5 : 0.85};
  Case& c = bench.test_case;
  if (!v.axis.empty()) {
    c.attributes["axis"] = v.axis;
    for (CaseInput& in : c.inputs)
      if (in.name == "scale" || in.name == "zero_point")
        in.shape = {(v.small ? kSmall : kMatrix)[v.axis == "0" ? 0 : 1]};
  }
  if (c.attributes.contains("group")) {
    c.attributes["group"] = "128";
    for (CaseInput& in : c.inputs)
      if (in.name == "scale" || in.name == "zero_point")
        in.shape = v.small ? Shape{8, 1} : Shape{8192, 64};
  }
  if (c.attributes.contains("learnable"))
    c.attributes["learnable"] = v.learnable ? "true" : "false";
  if (v.transposed) {
    for (CaseInput& in : c.inputs)
      if (in.name == "x" || in.name == "q" || in.name == "dy") in.layout = Layout::transposed;
  }
  if (!v.small && !v.transposed && !v.learnable) bench.aim_ms = aim(info.name, dtypes);
  return bench;
}

}  // namespace

std::vector<BenchCase> quantize_benches(DeviceKind device) {
  std::vector<BenchCase> all;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::quantize) continue;
    const std::string_view op = entry.info->name;
    const bool stores_q = !op.ends_with("_backward") && !op.starts_with("fake_");
    const bool per_channel = op.find("per_channel") != op.npos;
    for (Dtype element : {Dtype::f32, Dtype::f16, Dtype::bf16})
      for (Dtype quantized : {Dtype::s8, Dtype::s4}) {
        if (quantized == Dtype::s4 && !stores_q) continue;  // nothing else moves other bytes
        for (std::string_view axis : {"0", "1"}) {
          if (!per_channel && axis == "1") continue;
          all.push_back(
              make_bench(*entry.info, {element, quantized}, {.axis = per_channel ? axis : ""}));
        }
      }
    if (op.starts_with("fake_") && op.ends_with("_backward"))
      for (std::string_view axis : {"0", "1"})
        if (per_channel || axis == "0")
          all.push_back(make_bench(*entry.info, {Dtype::f32, Dtype::s8},
                                   {.axis = per_channel ? axis : "", .learnable = true}));
    if (device == DeviceKind::cpu && per_channel && !op.ends_with("_backward"))
      all.push_back(
          make_bench(*entry.info, {Dtype::f32, Dtype::s8}, {.axis = "0", .transposed = true}));
    if (per_channel)
      all.push_back(make_bench(*entry.info, {Dtype::f32, Dtype::s8}, {.axis = "0", .small = true}));
  }
  return all;
}

}  // namespace planck::verify
