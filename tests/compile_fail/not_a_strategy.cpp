// expected: CheckpointStrategy
#include "planck/planck.h"

struct AlwaysRecompute {
  static constexpr bool recomputes = true;
};
using A = planck::Autodiff<planck::Cpu, AlwaysRecompute>;
