// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(MaxPool2d<FloatKind>, FloatKind);
PLANCK_OP(MaxPool2dBackward, FloatKind, IntKind);
PLANCK_OP(AvgPool2d, FloatKind);
PLANCK_OP(AvgPool2dBackward, FloatKind);
PLANCK_OP(AdaptiveAvgPool2d, FloatKind);
PLANCK_OP(AdaptiveAvgPool2dBackward, FloatKind);
