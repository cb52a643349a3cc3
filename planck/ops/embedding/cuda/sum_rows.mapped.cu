#include "planck/loops/table/cuda/sum_rows.launch.cuh"

namespace planck::embedding_device {

PLANCK_SUM_ROWS(SourceKind::mapped)

}  // namespace planck::embedding_device
