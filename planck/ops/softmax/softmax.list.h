// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Softmax, FloatKind);
PLANCK_OP(LogSoftmax, FloatKind);
PLANCK_OP(SoftmaxBackward, FloatKind, FloatKind);
PLANCK_OP(LogSoftmaxBackward, FloatKind, FloatKind);
PLANCK_OP(CrossEntropy, FloatKind, IntKind);
PLANCK_OP(CrossEntropyBackward, FloatKind, IntKind, FloatKind, FloatKind);
