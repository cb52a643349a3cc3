// Times plans against the ceiling of the machine they run on, measured in the same run.
//
// Each round times the plan and every variant of the ceiling, one after the other, on buffers that
// rotate through more memory than the caches hold; the ratio is the median over rounds of ceiling
// time over plan time, so that a machine that is slow for a while slows both. On CUDA the stream is
// kept busy until everything is queued, so that launches cost nothing.
#pragma once

#include <string>
#include <vector>

#include "planck/ops/families.inc"
#include "planck/verify/case.h"

namespace planck::verify {

struct BenchCase {
  Case test_case;     // layouts count; values are random
  bool call = false;  // a tensor so small that the call itself is what is timed
  double aim_ms = 0;  // on one H200, where one is known
  // The share of the ceiling to reach on the CPU (of a peer: everywhere), where one is aimed at.
  double cpu_share = 0;
  std::string note = {};                        // what shape and attributes do not say
  std::optional<std::string_view> kernel = {};  // not the best one, but this, whatever it promises
  // Elements of an operand that are really moved, where it is not all of them.
  std::map<std::string, std::int64_t, std::less<>> moved = {};
  // Where arithmetic is what takes time: operations of one run, and the kernel of the same table
  // that takes the ceiling's place, where this machine has it.
  double flops = 0;
  std::string_view peer = {};
};

struct BenchRow {
  std::string op, dtypes, shape, detail;  // detail: attributes and layout
  std::string_view kernel;
  std::size_t bytes = 0;  // each input read once, each output written once
  double seconds = 0;     // of one run, median
  std::string_view ceiling_variant;
  double ceiling_seconds = 0;
  double ratio = 0;  // ceiling time over plan time
  double aim_ms = 0, cpu_share = 0;
  bool call = false;
  double overhead_seconds = 0;  // per call, above its kernel
  double flops = 0;             // of one run, where they count; ceiling_variant is the peer then

  double bandwidth() const { return static_cast<double>(bytes) / seconds; }
  double ceiling_bandwidth() const { return static_cast<double>(bytes) / ceiling_seconds; }
};

// "quantize_per_channel f32 s8 [8192, 8192] axis=0"
std::string name(const BenchCase& bench);
[[nodiscard]] Result<BenchRow> run_bench(std::span<const OpEntry> ops, const BenchCase& bench,
                                         const Stream& stream, double min_seconds);

std::vector<BenchCase> all_benches(DeviceKind device);

// Families.
using BenchList = std::vector<BenchCase>(DeviceKind device);
#define PLANCK_DECLARE(family) BenchList family##_benches;
PLANCK_FAMILIES(PLANCK_DECLARE)
#undef PLANCK_DECLARE

}  // namespace planck::verify
