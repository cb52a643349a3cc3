#include "planck/planck.h"

namespace planck {

PLANCK_COMPILE_TAPE(template, Cpu);
PLANCK_IF_CUDA(PLANCK_COMPILE_TAPE(template, Cuda);)

}  // namespace planck
