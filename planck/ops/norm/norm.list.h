// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Norm<true, true, true>, FloatKind, FloatKind, FloatKind);
PLANCK_OP(Norm<true, false, false>, FloatKind);
PLANCK_OP(Norm<false, true, false>, FloatKind, FloatKind);
PLANCK_OP(NormBackward<true, true, true>, FloatKind, FloatKind, FloatKind, FloatKind, FloatKind);
PLANCK_OP(NormBackward<true, false, false>, FloatKind, FloatKind, FloatKind, FloatKind);
PLANCK_OP(NormBackward<false, true, false>, FloatKind, FloatKind, FloatKind, FloatKind);
