#include "tools/planck/ops/on_tensors-inl.h"

namespace planck::cli {
template struct OnTensors<Cpu>;
}
