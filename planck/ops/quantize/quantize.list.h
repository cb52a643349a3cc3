// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Quantize, FloatKind, FloatKind, IntKind);
PLANCK_OP(Dequantize, IntKind, FloatKind, IntKind);
PLANCK_OP(FakeQuantize, FloatKind, FloatKind, IntKind);
PLANCK_OP(FakeQuantizeBackward<false>, FloatKind, FloatKind, FloatKind, IntKind);
PLANCK_OP(FakeQuantizeBackward<true>, FloatKind, FloatKind, FloatKind, IntKind);
PLANCK_OP(DynamicQuantize, FloatKind);
PLANCK_OP(QuantizeBackward, FloatKind, FloatKind, FloatKind, IntKind);
PLANCK_OP(DequantizeBackward, FloatKind, FloatKind);
PLANCK_OP(Dequantize, CodeKind, FloatKind, IntKind);
