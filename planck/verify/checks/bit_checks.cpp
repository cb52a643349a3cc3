// The same bits, whatever the thread count, the layout or what memory held before.
#include <fmt/format.h>

#include <algorithm>

#include "planck/verify/checks/checks.h"

namespace planck::verify {

namespace {

constexpr std::uint8_t kOtherSentinel = 0x3c;
// Above it only the layouts that differ most are tried.
constexpr std::int64_t kManyElements = 1 << 15;

std::int64_t elements(const KernelCheck& check) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < check.subject.operands(); ++i)
    if (check.subject.takes(i, check.inputs))
      most = std::max(most, numel(check.subject.shape(i, check.inputs)));
  return most;
}

// Runs an arrangement and compares with the expected outcome where the kernel promises bits.
void expect_same(const KernelCheck& check, const Stream& stream, const NamedTensors& inputs,
                 const Arrangement& how, const Outcome& expected, int skip = -1) {
  const Outcome outcome = execute(check.subject, stream, inputs, how);
  if (!check.expect_none(how.what, outcome.fault) || !check.promises_bits()) return;
  check.expect_none(how.what, outputs_difference(check.subject, expected, outcome, skip));
}

// The wanted layout where `which` says so and it is legal. False where nothing but contiguous is
// left.
template <class F>
bool set_layouts(const KernelCheck& check, Arrangement& how, F&& wanted) {
  how.layouts.assign(check.subject.operands(), Layout::contiguous);
  bool any = false;
  for (std::size_t i = 0; i < check.subject.operands(); ++i) {
    if (!check.subject.takes(i, check.inputs)) continue;
    how.layouts[i] = legal_layout(check.subject, check.inputs, i, wanted(i));
    any |= how.layouts[i] != Layout::contiguous;
  }
  return any;
}

void check_layouts(const KernelCheck& check, const Outcome& golden) {
  const Subject& subject = check.subject;
  const Stream& stream = check.streams.back();
  const bool many = elements(check) > kManyElements;
  for (Layout layout : kAllLayouts) {
    if (layout == Layout::contiguous || is_broadcast(layout)) continue;
    if (many && layout != Layout::transposed && layout != Layout::misaligned &&
        layout != Layout::sliced)
      continue;
    for (std::string_view whose : {"all", "inputs", "outputs"}) {
      if (many && whose != "all") continue;
      Arrangement how{.what = fmt::format("{} {}", whose, name(layout)),
                      .layouts = {},
                      .sentinel = kOtherSentinel};
      const bool any = set_layouts(check, how, [&](std::size_t i) {
        const bool chosen =
            whose == "all" || (whose == "inputs") == (subject.role(i) == Role::input);
        return chosen ? layout : Layout::contiguous;
      });
      if (any) expect_same(check, stream, check.inputs, how, golden);
    }
  }
  // Every operand its own layout, and the case's own wishes.
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    Arrangement how{.what = fmt::format("mixed layouts {}", turn), .layouts = {}};
    constexpr std::uint64_t kStrided = static_cast<std::uint64_t>(Layout::broadcast);
    const bool any = set_layouts(check, how, [&](std::size_t i) {
      return kAllLayouts[(subject.test_case->seed + turn * 3 + i * 2 + 1) % kStrided];
    });
    if (any) expect_same(check, stream, check.inputs, how, golden);
  }
  Arrangement own{.what = "the case's layouts", .layouts = {}};
  const bool any = set_layouts(check, own, [&](std::size_t i) {
    const std::string_view operand = subject.info().operands[i].name;
    for (const CaseInput& in : subject.test_case->inputs)
      if (in.name == operand && !is_broadcast(in.layout)) return in.layout;
    const auto output = subject.test_case->output_layouts.find(operand);
    return output == subject.test_case->output_layouts.end() ? Layout::contiguous : output->second;
  });
  if (any) expect_same(check, stream, check.inputs, own, golden);
}

void check_in_place(const KernelCheck& check, const Outcome& golden) {
  const Subject& s = check.subject;
  if (!s.info().in_place) return;  // refused: see check_errors
  for (std::size_t out = 0; out < s.operands(); ++out)
    for (std::size_t in = 0; in < s.operands(); ++in) {
      if (s.role(out) != Role::output || s.role(in) != Role::input) continue;
      if (!s.takes(out, check.inputs) || !s.takes(in, check.inputs)) continue;
      if (s.specs[out].count_only != s.specs[in].count_only) continue;  // refused: see check_errors
      if (bits(s.specs[out].dtype) != bits(s.specs[in].dtype) ||
          s.specs[out].shape != s.shape(in, check.inputs))
        continue;
      Arrangement how{.what = fmt::format("{} in place of {}", s.info().operands[out].name,
                                          s.info().operands[in].name),
                      .layouts = {}};
      how.in_place_output = static_cast<int>(out);
      how.in_place_input = static_cast<int>(in);
      expect_same(check, check.streams.back(), check.inputs, how, golden);
    }
}

void check_left_out(const KernelCheck& check, const Outcome& golden) {
  for (std::size_t i = 0; i < check.subject.operands(); ++i) {
    const OperandInfo& info = check.subject.info().operands[i];
    if (!info.optional || check.subject.specs[i].required || info.role != Role::output ||
        !check.subject.takes(i, check.inputs))
      continue;
    Arrangement how{
        .what = fmt::format("without {}", info.name), .layouts = {}, .sentinel = kOtherSentinel};
    how.left_out = static_cast<int>(i);
    expect_same(check, check.streams.back(), check.inputs, how, golden, how.left_out);
  }
}

// The tensor whose values along `axis` are all those of index 0.
HostTensor collapsed(const HostTensor& t, int axis) {
  HostTensor out(t.dtype, t.shape);
  Strides strides = row_major(t.shape);
  strides[axis] = 0;
  for_each_element(t.shape, strides, [&](std::int64_t flat, std::int64_t at) {
    out.set_pattern(flat, t.pattern(at));
  });
  return out;
}

}  // namespace

std::string outputs_difference(const Subject& subject, const Outcome& expected,
                               const Outcome& actual, int skip) {
  for (std::size_t i = 0; i < subject.operands(); ++i) {
    if (subject.role(i) != Role::output || !subject.specs[i].used || static_cast<int>(i) == skip)
      continue;
    if (const std::string difference = bit_difference(expected.outputs[i], actual.outputs[i]);
        !difference.empty())
      return fmt::format("{}{}", subject.info().operands[i].name, difference);
  }
  return "";
}

void check_bits(const KernelCheck& check, const Outcome& golden) {
  std::uint8_t sentinel = kOtherSentinel;
  for (const Stream& stream : check.streams) {
    const Arrangement how{.what = stream.device().kind == DeviceKind::cpu
                                      ? fmt::format("{} threads", stream.threads())
                                      : std::string("another stream"),
                          .layouts = {},
                          .sentinel = sentinel};
    sentinel ^= 0xff;  // an element that is never written shows what was there before
    expect_same(check, stream, check.inputs, how, golden);
  }
  check_layouts(check, golden);
  check_in_place(check, golden);
  check_left_out(check, golden);
}

void check_broadcasts(const KernelCheck& check) {
  const Subject& s = check.subject;
  for (Layout layout : {Layout::broadcast, Layout::broadcast_inner}) {
    NamedTensors inputs = check.inputs;
    Arrangement how{.what = fmt::format("inputs {}", name(layout)),
                    .layouts = std::vector<Layout>(s.operands(), Layout::contiguous)};
    bool any = false;
    for (std::size_t i = 0; i < s.operands(); ++i) {
      if (s.role(i) != Role::input || !s.takes(i, inputs)) continue;
      how.layouts[i] = legal_layout(s, inputs, i, layout);
      if (how.layouts[i] != layout) continue;
      HostTensor& tensor = inputs.find(s.info().operands[i].name)->second;
      tensor = collapsed(tensor, broadcast_axis(layout, tensor.shape));
      any = true;
    }
    if (!any) continue;
    const Outcome expected = execute(s, check.streams.front(), inputs, {.what = "", .layouts = {}});
    if (check.expect_none("contiguous copy of broadcast inputs", expected.fault))
      expect_same(check, check.streams.back(), inputs, how, expected);
  }
}

}  // namespace planck::verify
