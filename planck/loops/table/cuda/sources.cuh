// What an entry adds to its row.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/table/cuda/sorted_index.cuh"

namespace planck::table_device {

enum class SourceKind {
  plain,   // row `entry` of the source
  mapped,  // row map[entry], times a scale, or divided by a count
  chosen,  // row map[entry] in the columns that chose the entry, +0 in others
};

// Where an entry's values are, and what becomes of them.
template <class T, SourceKind kSource>
struct SourceRow {
  std::uint32_t row = 0;
};
template <class T>
struct SourceRow<T, SourceKind::mapped> {
  std::uint32_t row = 0;
  Compute<T> scale = 1;
};
template <class T>
struct SourceRow<T, SourceKind::chosen> {
  std::uint32_t row = 0, entry = 0;
};

template <class T>
struct Source {
  using C = Compute<T>;
  const T* data = nullptr;
  FlatView rows;  // of a row, in elements
  std::int64_t column_stride = 1;
  // mapped and chosen: rows by bag or by index.
  const std::uint32_t* bags = nullptr;
  Integers indices;  // where bags is null
  const T* scales = nullptr;
  std::int64_t scale_stride = 0;
  const std::uint32_t* counts = nullptr;  // of each bag: divide by it
  const std::int64_t* chosen = nullptr;   // [B, D]
  std::int64_t chosen_row = 0, chosen_column = 0;

  template <SourceKind kSource>
  __device__ __forceinline__ SourceRow<T, kSource> find(std::uint32_t entry) const {
    SourceRow<T, kSource> found;
    if constexpr (kSource == SourceKind::plain) {
      found.row = entry;
    } else {
      found.row = bags != nullptr ? bags[entry] : static_cast<std::uint32_t>(indices[entry]);
      if constexpr (kSource == SourceKind::chosen) found.entry = entry;
      if constexpr (kSource == SourceKind::mapped) {
        if (scales != nullptr)
          found.scale =
              element_of<T>(load_pack<sizeof(T), false>(scales + entry * scale_stride, 0), 0);
        else if (counts != nullptr)
          found.scale = static_cast<C>(counts[found.row]);
      }
    }
    return found;
  }
  template <SourceKind kSource>
  __device__ __forceinline__ C scaled(C value, const SourceRow<T, kSource>& from,
                                      std::int64_t column) const {
    if constexpr (kSource == SourceKind::plain) {
      return value;
    } else if constexpr (kSource == SourceKind::chosen) {
      return chosen[from.row * chosen_row + column * chosen_column] == std::int64_t{from.entry}
                 ? value
                 : C(0);
    } else {
      return counts != nullptr   ? value / from.scale
             : scales != nullptr ? value * from.scale
                                 : value;
    }
  }
};

}  // namespace planck::table_device
