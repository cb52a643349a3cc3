// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
#define PLANCK_OF_ONE(Op, K) PLANCK_OP(Op, K)
#define PLANCK_OF_TWO(Op, K) PLANCK_OP(Op, K, K)
// By the dtypes of the table.
#define PLANCK_OF_floats(OF, Op) OF(Op, FloatKind);
#define PLANCK_OF_numbers(OF, Op) \
  OF(Op, FloatKind);              \
  OF(Op, IntKind);
#define PLANCK_OF_booleans(OF, Op) OF(Op, BoolKind);
#define PLANCK_OF_integers(OF, Op) OF(Op, IntKind);

#define PLANCK_UNARY_OP(name, Op, dtypes, ...) PLANCK_OF_##dtypes(PLANCK_OF_ONE, Op)
#define PLANCK_SCALAR_OP PLANCK_UNARY_OP
#define PLANCK_BINARY_OP(name, Op, dtypes, ...) PLANCK_OF_##dtypes(PLANCK_OF_TWO, Op)
#define PLANCK_COMPARE_OP PLANCK_BINARY_OP
#include "planck/ops/elementwise/elementwise.table.h"

#undef PLANCK_OF_ONE
#undef PLANCK_OF_TWO
#undef PLANCK_OF_floats
#undef PLANCK_OF_numbers
#undef PLANCK_OF_booleans
#undef PLANCK_OF_integers

// For several kinds of inputs.
PLANCK_OP(Where<FloatKind>, BoolKind, FloatKind, FloatKind);
PLANCK_OP(MaskFill, FloatKind, BoolKind);
PLANCK_OP(Where<IntKind>, BoolKind, IntKind, IntKind);
PLANCK_OP(MaskFill, IntKind, BoolKind);
PLANCK_OP(Cast<FloatKind>, FloatKind);
PLANCK_OP(Cast<FloatKind>, IntKind);
PLANCK_OP(Cast<FloatKind>, BoolKind);
PLANCK_OP(Cast<IntKind>, FloatKind);
PLANCK_OP(Cast<IntKind>, IntKind);
PLANCK_OP(Cast<IntKind>, BoolKind);
PLANCK_OP(Cast<BoolKind>, FloatKind);
PLANCK_OP(Cast<BoolKind>, IntKind);

// Without inputs.
PLANCK_CREATION(Full<FloatKind>);
PLANCK_CREATION(Full<IntKind>);
PLANCK_CREATION(Full<BoolKind>);
PLANCK_CREATION(Arange<FloatKind>);
PLANCK_CREATION(Arange<IntKind>);
PLANCK_CREATION(RandomUniform);
PLANCK_CREATION(RandomNormal);
PLANCK_CREATION(RandomBernoulli);
