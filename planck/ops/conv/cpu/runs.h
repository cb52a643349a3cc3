// Panels for the tiles of a product (loops/gemm/cpu/tile.h), put together from runs of elements
// that lie side by side in a copied image.
#pragma once

#include <cstdint>

namespace planck::conv_detail {

// Elements [from, from + length) become columns [lane, lane + length) of a panel.
struct Run {
  std::int64_t from;
  int lane, length;
};

inline constexpr int kMostRuns = 256;
// Words that are written behind a panel's last one.
inline constexpr int kPanelSlack = 16;

// Whether whole vectors lie in one run each: then tiles read them where they are, at `vector`.
inline bool read_in_place(const Run* runs, int count, int lanes, std::int64_t (&vector)[4]) {
  for (int r = 0; r < count; ++r) {
    if (runs[r].lane % lanes != 0) return false;
    for (int n = 0; n < runs[r].length; n += lanes)
      vector[(runs[r].lane + n) / lanes] = runs[r].from + n;
  }
  return true;
}

// out[i * width + lane] = image[at[i] + element of lane], for i in [0, k). Reads up to 15 elements
// behind each run. Runs are in ascending order of lanes; columns without a run get any numbers. For
// integers a word holds two of k (loops/gemm/cpu/pack.h).
void pack_runs(const float* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, float* out);
void pack_runs(const double* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, double* out);
void pack_runs(const std::int8_t* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, std::int32_t* out);

}  // namespace planck::conv_detail
