// expected: the backend cannot do this op, and it has no decomposition
// expected: Undone
#include "planck/planck.h"

struct Undone {
  static constexpr std::string_view name = "undone";
};

auto f(const planck::Tensor<planck::Cpu>& x) { return call(Undone{}, x); }
