#include "planck/planck.h"

#define PLANCK_OP(...) PLANCK_COMPILE_OP(template, __VA_ARGS__)
#define PLANCK_CREATION(...) template struct Planned<__VA_ARGS__>

namespace planck {
#include "planck/ops/elementwise/elementwise.list.h"
}  // namespace planck
