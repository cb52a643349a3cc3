// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(GridSample, FloatKind, FloatKind);
PLANCK_OP(GridSampleBackward<true, true>, FloatKind, FloatKind, FloatKind);
PLANCK_OP(GridSampleBackward<true, false>, FloatKind, FloatKind, FloatKind);
PLANCK_OP(GridSampleBackward<false, true>, FloatKind, FloatKind, FloatKind);
PLANCK_OP(AffineGrid, FloatKind);
PLANCK_OP(AffineGridBackward, FloatKind);
