// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Sort<FloatKind>, FloatKind);
PLANCK_OP(Argsort, FloatKind);
PLANCK_OP(Topk<FloatKind>, FloatKind);
