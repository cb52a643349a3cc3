// The sum over grains of tables of which each grain touched few rows: gradients of embeddings. Only
// rows with a bit set are sent. The bits are those of the dense sum, where a row that is missing
// takes part as +0.
#pragma once

#include "planck/dist/grains.h"
#include "planck/dist/transport/communicator.h"

namespace planck::dist {

struct TableShape {
  std::int64_t rows, width;
};
// roots: [rows, width] each, those of this worker; sum: [rows, width].
void all_reduce_rows(Communicator& workers, const Grains& grains,
                     std::span<const float* const> roots, float* sum, TableShape shape);

}  // namespace planck::dist
