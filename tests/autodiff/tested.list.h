// Ops that the backend of these tests does itself. The Reference backend takes the others apart.
#include "planck/ops/elementwise/elementwise.list.h"
#include "planck/ops/index/index.list.h"
#include "planck/ops/matmul/matmul.list.h"
#include "planck/ops/pool/pool.list.h"
#include "planck/ops/reduce/reduce.list.h"
#include "planck/ops/shape/shape.list.h"
#include "planck/ops/sort/sort.list.h"
#ifndef PLANCK_TESTS_REFERENCE
#include "planck/ops/attention/attention.list.h"
#include "planck/ops/conv/conv.list.h"
#include "planck/ops/embedding/embedding.list.h"
#include "planck/ops/grid_sample/grid_sample.list.h"
#include "planck/ops/norm/norm.list.h"
#include "planck/ops/quantize/quantize.list.h"
#include "planck/ops/softmax/softmax.list.h"
#endif
