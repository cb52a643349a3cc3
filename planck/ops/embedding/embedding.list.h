// The ops of this family that the library has compiled, and the kinds of tensors they take: see
// autodiff/compiled.h.
PLANCK_OP(Embedding, FloatKind, IntKind);
PLANCK_OP(EmbeddingBackward, FloatKind, IntKind);
PLANCK_OP(EmbeddingSparseBackward, FloatKind, IntKind);
PLANCK_OP(EmbeddingBag<BagMode::sum>, FloatKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBag<BagMode::mean>, FloatKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBag<BagMode::max>, FloatKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBag<BagMode::sum, true>, FloatKind, IntKind, IntKind, FloatKind);
PLANCK_OP(EmbeddingBagBackward<BagMode::sum>, FloatKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBagBackward<BagMode::mean>, FloatKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBagBackward<BagMode::max>, FloatKind, IntKind, IntKind, IntKind);
PLANCK_OP(EmbeddingBagBackward<BagMode::sum, true>, FloatKind, IntKind, IntKind, FloatKind,
          FloatKind);
