// Every registered op with operands and attributes that nobody would choose: each dtype for each
// operand, empty axes, scalars, rank 8, extents whose product overflows, attributes that are huge,
// negative, no numbers or of another grammar. New ops are in as soon as the registry has them.
#pragma once

#include <functional>
#include <string>

#include "planck/plan/registry.h"
#include "tests/conformance/isolated.h"

namespace planck::conformance {

struct OddCase {
  std::string op;
  Attributes attributes;
  InputSpecs inputs;
  std::uint64_t seed = 0;  // of the values

  std::string text() const;  // in one line
};

// The odd cases of an op, in an order that never changes.
void for_each_odd_case(const OpEntry& entry, const std::function<void(const OddCase&)>& f);

// Runs every kernel that accepts the case on the stream's device. "" where the case is refused with
// one line that names the op, or taken with a right result: nothing outside of the outputs is
// written, every element of them is, all kernels give the same bits where they promise it, and
// values are the naive ones where there are any (odd_reference.h). Else what is wrong.
std::string run_odd_case(const OddCase& c, const Stream& stream, Counted& counted);

}  // namespace planck::conformance
