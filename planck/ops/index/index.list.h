// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Gather<FloatKind>, FloatKind, IntKind);
PLANCK_OP(IndexSelect<FloatKind>, FloatKind, IntKind);
PLANCK_OP(Scatter<FloatKind>, FloatKind, IntKind, FloatKind);
PLANCK_OP(MaskSelect<FloatKind>, FloatKind, BoolKind);
PLANCK_OP(Gather<IntKind>, IntKind, IntKind);
PLANCK_OP(IndexSelect<IntKind>, IntKind, IntKind);
PLANCK_OP(Scatter<IntKind>, IntKind, IntKind, IntKind);
PLANCK_OP(MaskSelect<IntKind>, IntKind, BoolKind);
PLANCK_OP(ScatterAdd<FloatKind>, FloatKind, IntKind, FloatKind);
PLANCK_OP(IndexAdd<FloatKind>, FloatKind, IntKind, FloatKind);
PLANCK_OP(ScatterAddInto, IntKind, FloatKind);
PLANCK_OP(IndexAddInto, IntKind, FloatKind);
PLANCK_OP(MaskScatter<FloatKind>, FloatKind, BoolKind, FloatKind);
PLANCK_OP(MaskScatterInto, BoolKind, FloatKind);
PLANCK_OP(Nonzero, BoolKind);
PLANCK_OP(OneHot<IntKind>, IntKind);
PLANCK_OP(OneHot<FloatKind>, IntKind);
