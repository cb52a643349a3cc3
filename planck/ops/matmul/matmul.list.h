// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Matmul, FloatKind, FloatKind);
PLANCK_OP(Matmul, FloatKind, FloatKind, FloatKind);
PLANCK_OP(Matmul, FloatKind, FloatKind, FloatKind, FloatKind);
PLANCK_OP(Matmul, IntKind, IntKind);
