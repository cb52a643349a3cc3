// expected: Backend
#include "planck/planck.h"

struct Incomplete {
  using FloatTensor = int;
};
static_assert(planck::Backend<Incomplete>);
