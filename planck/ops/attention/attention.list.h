// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Attention, FloatKind, FloatKind, FloatKind);
PLANCK_OP(Attention, FloatKind, FloatKind, FloatKind, BoolKind);
PLANCK_OP(Attention, FloatKind, FloatKind, FloatKind, FloatKind);
PLANCK_OP(AttentionBackward, FloatKind, FloatKind, FloatKind, FloatKind, FloatKind, FloatKind);
PLANCK_OP(AttentionBackward, FloatKind, FloatKind, FloatKind, BoolKind, FloatKind, FloatKind,
          FloatKind);
PLANCK_OP(AttentionBackward, FloatKind, FloatKind, FloatKind, FloatKind, FloatKind, FloatKind,
          FloatKind);
