// Results against a reference in f64, within what the kernel promises.
//
// The reference belongs to a family's own test and shares no code with the library. Its values are
// rounded once to the output's dtype; a result may be max_ulp representable numbers away from that
// (guarantee.h), integers not at all. Any NaN stands for any other: which bits a NaN has is the
// business of the bit checks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planck/verify/case.h"

namespace planck::verify {

// By name, each output's elements, row-major.
using ReferenceOutputs = std::map<std::string, std::vector<double>, std::less<>>;
using Reference = std::function<ReferenceOutputs(const Case&, const NamedTensors& inputs)>;

// Representable numbers between a and b; 0 for equal ones and for two NaNs, infinite where only one
// is NaN.
double ulps_apart(Dtype dtype, double a, double b);

// "" where every element is near enough; else the first that is not.
std::string value_difference(const HostTensor& actual, const std::vector<double>& expected,
                             double max_ulp);

struct ValueCheck {
  std::vector<std::string> failures;
  double worst_ulp = 0;
};
// Runs every kernel of the table that accepts the case on the device, and compares what the
// reference names.
ValueCheck check_values(std::span<const OpEntry> ops, const Case& c, const Stream& stream,
                        const Reference& reference);

}  // namespace planck::verify
