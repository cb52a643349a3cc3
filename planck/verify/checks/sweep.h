// Streams many values through every op and pair of dtypes, and compares bits between kernels and
// devices.
//
// The values are those of hostile_case: NaN, ±Inf, subnormals, any bit pattern, extreme scales and
// zero points, exact ties; for products wide exponents, cancellations and rare special values, in
// every meaning that the dtype has. For each case every kernel that promises cross_device, on the
// CPU with one and with several threads and on the device, must give the bits of the first.
#pragma once

#include <functional>

#include "planck/verify/report.h"
#include "planck/verify/runner.h"

namespace planck::verify {

struct SweepOptions {
  Device device = Device::cpu();
  std::int64_t values = 0;  // at least so many elements of main tensors in all
  int threads = 0;          // of the second CPU run; 0: all cores
  std::function<bool(std::string_view op)> wanted;
  std::function<void(std::size_t done, std::size_t all, std::string_view op)> progress;
};

struct SweepReport {
  std::int64_t values = 0;   // elements of main tensors
  std::int64_t outputs = 0;  // elements of results, each compared between all runs of its case
  std::size_t cases = 0, comparisons = 0;
  // Of all inputs and all results, in order: the same number on every machine, for the same values
  // and ops.
  std::uint64_t digest = 0;
  std::vector<std::string> failures;
};

[[nodiscard]] Result<SweepReport> sweep(std::span<const OpEntry> ops, const SweepOptions& options);

}  // namespace planck::verify
