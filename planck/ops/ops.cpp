#include "planck/ops/ops.h"

#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/elementwise/elementwise.problem.h"
#include "planck/ops/embedding/embedding.problem.h"
#include "planck/ops/grid_sample/grid_sample.problem.h"
#include "planck/ops/index/index.problem.h"
#include "planck/ops/matmul/matmul.problem.h"
#include "planck/ops/norm/norm.problem.h"
#include "planck/ops/pool/pool.problem.h"
#include "planck/ops/quantize/quantize.problem.h"
#include "planck/ops/reduce/reduce.problem.h"
#include "planck/ops/softmax/softmax.problem.h"
#include "planck/ops/sort/sort.problem.h"

namespace planck {

std::span<const OpEntry> all_ops() {
  static const std::vector<OpEntry>& entries = *[] {
    auto* all = new std::vector<OpEntry>;
    for (const auto& family : {
             quantize_ops(),
             embedding_ops(),
             grid_sample_ops(),
             reduce_ops(),
             matmul_ops(),
             conv_ops(),
             elementwise_ops(),
             index_ops(),
             sort_ops(),
             softmax_ops(),
             norm_ops(),
             pool_ops(),
         })
      all->insert(all->end(), family.begin(), family.end());
    return all;
  }();
  return entries;
}

}  // namespace planck
