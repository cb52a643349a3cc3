// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Conv2d, FloatKind, FloatKind);
PLANCK_OP(Conv2d, IntKind, IntKind);
PLANCK_OP(Conv2dInput, FloatKind, FloatKind);
PLANCK_OP(Conv2dWeight, FloatKind, FloatKind);
