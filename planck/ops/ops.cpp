#include "planck/ops/ops.h"

#include "planck/ops/conv/problem.h"
#include "planck/ops/elementwise/problem.h"
#include "planck/ops/embedding/problem.h"
#include "planck/ops/grid_sample/problem.h"
#include "planck/ops/index/problem.h"
#include "planck/ops/matmul/problem.h"
#include "planck/ops/norm/problem.h"
#include "planck/ops/pool/problem.h"
#include "planck/ops/quantize/problem.h"
#include "planck/ops/reduce/problem.h"
#include "planck/ops/softmax/problem.h"
#include "planck/ops/sort/problem.h"

namespace planck {

std::span<const OpFamily> op_families() {
  static const std::vector<OpFamily>& families = *new std::vector<OpFamily>{
      {"quantize", quantize_ops()},
      {"embedding", embedding_ops()},
      {"grid_sample", grid_sample_ops()},
      {"reduce", reduce_ops()},
      {"matmul", matmul_ops()},
      {"conv", conv_ops()},
      {"elementwise", elementwise_ops()},
      {"index", index_ops()},
      {"sort", sort_ops()},
      {"softmax", softmax_ops()},
      {"norm", norm_ops()},
      {"pool", pool_ops()},
  };
  return families;
}

std::span<const OpEntry> all_ops() {
  static const std::vector<OpEntry>& entries = *[] {
    auto* all = new std::vector<OpEntry>;
    for (const OpFamily& family : op_families())
      all->insert(all->end(), family.ops.begin(), family.ops.end());
    return all;
  }();
  return entries;
}

}  // namespace planck
