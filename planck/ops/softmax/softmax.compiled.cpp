#include "planck/planck.h"

#define PLANCK_OP(...) PLANCK_COMPILE_OP(template, __VA_ARGS__)

namespace planck {
#include "planck/ops/softmax/softmax.list.h"
}  // namespace planck
