// Launching the sorted index and the sums over it.
#pragma once

#include "planck/core/workspace.h"
#include "planck/loops/table/cuda/sum_rows.cuh"
#include "planck/loops/table/table.h"

namespace planck::table_device {

struct IndexCall {
  SortedIndexLayout layout;
  SortedIndex index;
  Keys keys;
  unsigned long long* bad = nullptr;  // set to the number of indices outside the table
  OrderedRows ordered;
  ClearRows clear;
  bool first = true;  // nothing of the chain has been launched before
};

// Builds the index. Where it is small, all rows are cleared meanwhile; else clearing is left to the
// sums, which leave out the rows that they store.
Result<void> build_index(const Stream&, const IndexCall&);

// Rows as sums: the fields up to `columns` are set.
template <class T, SourceKind kSource>
Result<void> launch_sum(const Stream&, SumRows<T>, std::int64_t count);

Result<int> multiprocessors(const Stream&);

}  // namespace planck::table_device
