#include "planck/verify/checks/tensor_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "planck/verify/checks/kernel_rounds.h"

namespace planck::verify {

namespace {

namespace rule = math::tensor_core;
using gemm::Trial;
using gemm_device::Comparison;
using gemm_device::Instruction;

struct Line {
  Dtype element;
  bool by_kernel;
  Instruction instruction;  // that the kernel is made of

  std::string name() const {
    return fmt::format("tensor_core {} by {}", planck::name(element),
                       by_kernel ? "cuda:warpgroups" : gemm_device::name(instruction));
  }
};

std::vector<Line> all_lines() {
  std::vector<Line> lines;
  for (const Dtype element : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const Instruction i : gemm_device::kInstructions) lines.push_back({element, false, i});
    lines.push_back({element, true, Instruction::wgmma});
  }
  return lines;
}

template <class F>
auto of_format(Dtype element, F&& f) {
  if (element == Dtype::bf16) return f(rule::Bf16{});
  if (element == Dtype::f16) return f(rule::F16{});
  return f(rule::Tf32{});
}

std::string hex(float x) { return fmt::format("{:08x}", math::bits_of(x)); }

// Drawn again: the factors of an output, the sum that the contract gives, and where they are from.
template <class Format>
std::string shown(const Trial& t, int row, int column, int k, float begin, float got) {
  std::vector<typename Format::Bits> a, b;
  for (int at = 0; at < k; ++at) {
    a.push_back(gemm::factor<Format>(t, Trial::What::a, row, at));
    b.push_back(gemm::factor<Format>(t, Trial::What::b, column, at));
  }
  float must = begin;
  for (int at = 0; at < k; at += Format::kBlock)
    must = rule::add_products<Format>(must, a.data() + at, 1, b.data() + at, 1,
                                      std::min(k - at, Format::kBlock));
  constexpr int kDigits = 2 * int{sizeof(typename Format::Bits)};
  const auto list = [&](const auto& factors) {
    std::string text;
    for (const auto x : factors)
      text += fmt::format("{}{:0{}x}", text.empty() ? "" : " ", x, kDigits);
    return text;
  };
  return fmt::format(
      "{}, seed {}, trial {}, row {}, column {}\n  is {}, must be {}\n  c {}\n  a {}\n  b {}",
      gemm::name(t.numbers()), t.seed, t.number, row, column, hex(got), hex(must), hex(begin),
      list(a), list(b));
}

Result<std::string> first_of_trials(const Stream& stream, const Line& line, std::uint64_t seed,
                                    std::int64_t first) {
  std::vector<float> outputs(Trial::kOutputs);
  const std::int64_t number = first / Trial::kOutputs;
  const auto again = gemm_device::run_trials(
      stream, {line.element, line.instruction, seed, number, 1, outputs.data()});
  if (!again) return tl::unexpected(again.error());
  const auto output = static_cast<int>(first % Trial::kOutputs);
  return of_format(line.element, [&](auto format) {
    using Format = decltype(format);
    const Trial t{seed, static_cast<std::uint64_t>(number)};
    const int row = output / Trial::kColumns, column = output % Trial::kColumns;
    const float begin =
        gemm::start<Format>(t, row, column, gemm::factor<Format>(t, Trial::What::a, row, 0),
                            gemm::factor<Format>(t, Trial::What::b, column, 0));
    return shown<Format>(t, row, column, t.products<Format>(), begin,
                         outputs[static_cast<std::size_t>(output)]);
  });
}

constexpr std::int64_t kLeastRounds = 24;  // every kind of numbers in every size

// Trials of an instruction, or rounds of the kernel, until there are enough outputs; advance(n)
// after each part. The text is that of the first output that differs.
template <class Advance>
Result<std::string> run_line(const Stream& stream, const Line& line,
                             const TensorCoreOptions& options, TensorCoreLine& sum,
                             Advance advance) {
  std::string first;
  for (std::int64_t at = 0;
       sum.outputs < options.outputs || (line.by_kernel && at < kLeastRounds);) {
    Comparison found;
    if (line.by_kernel) {
      const KernelRound round = KernelRound::of(at++);
      const auto compared = compare_round(stream, line.element, options.seed, round);
      if (!compared) return tl::unexpected(compared.error());
      found = compared->found;
      if (found.differing != 0 && first.empty())
        first = of_format(line.element, [&](auto format) {
          return shown<decltype(format)>(
              round.drawn(options.seed), static_cast<int>(found.first / round.n),
              static_cast<int>(found.first % round.n), round.k, 0.0f, compared->got);
        });
    } else {
      constexpr std::int64_t kMost = 1 << 14;  // trials at once
      const std::int64_t left =
          (options.outputs - sum.outputs + Trial::kOutputs - 1) / Trial::kOutputs;
      const std::int64_t count = std::min(left, kMost);
      const auto compared = gemm_device::run_trials(
          stream, {line.element, line.instruction, options.seed, at, count});
      if (!compared) return tl::unexpected(compared.error());
      found = *compared, at += count;
      if (found.differing != 0 && first.empty()) {
        auto text = first_of_trials(stream, line, options.seed, found.first);
        if (!text) return text;
        first = std::move(*text);
      }
    }
    sum.outputs += found.outputs, sum.differing += found.differing;
    advance(found.outputs);
  }
  return first;
}

}  // namespace

KernelRound KernelRound::of(std::int64_t number) {
  // 3 sizes, 7 depths and 8 kinds of numbers meet in every combination.
  constexpr int kSizes[][2] = {{4096, 4096}, {1032, 776}, {8192, 56}};
  constexpr int kDepths[] = {16, 40, 64, 100, 7, 136, 33};
  const auto& size = kSizes[number % 3];
  return {number, size[0], size[1], kDepths[number % 7]};
}

std::vector<std::string> tensor_core_lines() {
  std::vector<std::string> names;
  for (const Line& line : all_lines()) names.push_back(line.name());
  return names;
}

Result<TensorCoreReport> compare_tensor_cores(const TensorCoreOptions& options) {
  const auto stream = Stream::on(options.device);
  if (!stream) return tl::unexpected(stream.error());
  std::vector<Line> lines = all_lines();
  if (options.wanted)
    std::erase_if(lines, [&](const Line& line) { return !options.wanted(line.name()); });
  TensorCoreReport report;
  const auto all = static_cast<std::size_t>(options.outputs) * lines.size();
  std::size_t done = 0;
  for (const Line& line : lines) {
    if (const auto absent = gemm_device::absent(options.device, line.instruction);
        !absent.empty()) {
      ++report.skipped[fmt::format("{}, which {}", line.name(), absent)];
      continue;
    }
    TensorCoreLine sum{line.name(), 0, 0};
    const auto first = run_line(*stream, line, options, sum, [&](std::int64_t outputs) {
      done += static_cast<std::size_t>(outputs);
      if (options.progress) options.progress(std::min(done, all), all, sum.name);
    });
    if (!first) return tl::unexpected(first.error());
    if (sum.differing != 0)
      report.failures.push_back(
          fmt::format("{}: {} of {} outputs differ from the contract; the first: {}", sum.name,
                      sum.differing, sum.outputs, *first));
    report.lines.push_back(std::move(sum));
  }
  return report;
}

}  // namespace planck::verify
