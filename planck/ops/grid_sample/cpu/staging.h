// Groups of images as channels-last rows: copied to the workspace, or used where they are.
//
// Images are staged a few at a time: enough for all threads, few enough to stay in the caches until
// they are read.
#pragma once

#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/grid_sample/cpu/channels_last.h"
#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

inline constexpr std::size_t kGroupBytes = std::size_t{4} << 20;
inline constexpr std::int64_t kSampleTask = 1 << 14;  // that are worth a task of their own

// Positions of a task, a multiple of kTilePoints.
inline std::int64_t task_positions(std::int64_t channels) {
  const std::int64_t tiles = kSampleTask / kTilePoints / std::max<std::int64_t>(1, channels);
  return kTilePoints * std::clamp<std::int64_t>(tiles, 1, 64);
}

// Calls work(image, begin, count) for tasks that cover `positions` of each of `images`.
template <class F>
void for_positions(const Stream& stream, std::int64_t images, std::int64_t positions,
                   std::int64_t of_task, F&& work) {
  const std::int64_t tasks = (positions + of_task - 1) / of_task;
  parallel_for(stream, images * tasks, [&](std::int64_t i) {
    const std::int64_t begin = i % tasks * of_task;
    work(i / tasks, begin, std::min(of_task, positions - begin));
  });
}

// Images that share the workspace.
inline std::int64_t group_images(std::int64_t batch, std::size_t image_bytes) {
  const auto fit = static_cast<std::int64_t>(kGroupBytes / std::max<std::size_t>(1, image_bytes));
  return std::clamp<std::int64_t>(fit, 1, std::max<std::int64_t>(1, batch));
}

// Whether a tensor's images are rows of the compute type as they are.
template <class C>
bool is_rows(const Planes& p) {
  return p.dtype == dtype_of<C> && (p.channel_stride == 1 || p.channels == 1);
}

// Rows of images [n0, n0 + images), `positions` each, one after the other.
template <class C>
void stage(const Stream& stream, const Planes& from, std::int64_t n0, std::int64_t images,
           std::int64_t positions, C* rows) {
  const std::int64_t length = row_length(from.channels);
  for_positions(stream, images, positions, task_positions(from.channels),
                [&](std::int64_t image, std::int64_t begin, std::int64_t count) {
                  load_rows(from, n0 + image, begin, count,
                            rows + (image * positions + begin) * length);
                });
}

}  // namespace planck
