#include "tools/planck/digits/run.h"

namespace planck::digits {
template struct On<Cpu>;
}
