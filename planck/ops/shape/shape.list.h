// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Reshape, FloatKind);
PLANCK_OP(Reshape, IntKind);
PLANCK_OP(Reshape, BoolKind);
PLANCK_OP(Permute, FloatKind);
PLANCK_OP(Permute, IntKind);
PLANCK_OP(Permute, BoolKind);
PLANCK_OP(Expand, FloatKind);
PLANCK_OP(Expand, IntKind);
PLANCK_OP(Expand, BoolKind);
PLANCK_OP(SliceAxis, FloatKind);
PLANCK_OP(SliceAxis, IntKind);
PLANCK_OP(SliceAxis, BoolKind);
PLANCK_OP(Flip, FloatKind);
PLANCK_OP(Flip, IntKind);
PLANCK_OP(Flip, BoolKind);
PLANCK_OP(Cat, std::vector<FloatKind>);
PLANCK_OP(Pad, FloatKind);
PLANCK_OP(SliceAssign, FloatKind, FloatKind);
PLANCK_OP(Cat, std::vector<IntKind>);
PLANCK_OP(Pad, IntKind);
PLANCK_OP(SliceAssign, IntKind, IntKind);
