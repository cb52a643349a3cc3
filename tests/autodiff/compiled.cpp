#include "tests/autodiff/compiled.h"

namespace planck {

#define PLANCK_OP(...) PLANCK_COMPILE_TESTED_OP(template, __VA_ARGS__)
#include "tests/autodiff/tested.list.h"
PLANCK_COMPILE_TESTED_TAPE(template);

}  // namespace planck
