// "cpu:pairs": windows of 2 x 2 side by side. Dense rows of the compute type are worked on in
// place, a plane's rows in one call; anything else goes through buffers, a row of windows at a
// time.
#include "planck/ops/pool/cpu/kernels.h"
#include "planck/ops/pool/cpu/pair_loops.h"
#include "planck/ops/pool/cpu/planes.h"

namespace planck {

namespace {

constexpr std::int64_t kWindows = kPortion / 2;

template <class C>
class Pairs {
 public:
  Pairs(const PoolProblem& p, const Operands& o)
      : problem_(p),
        axes_(p.axes()),
        image_(o[p.backward() ? (p.largest() ? 2 : 1) : 0]),
        windows_(o[p.backward() ? 0 : 1]),
        indices_(o[p.largest() ? (p.backward() ? 1 : 2) : 0]),
        dtype_(p.element_dtype),
        in_place_(dtype_ == dtype_of<C> && image_.column == 1 && windows_.column == 1 &&
                  (!p.largest() || indices_.column == 1)) {
    const PairLoops<C>& loops = pair_loops<C>();
    loop_ = p.largest() ? (p.backward() ? loops.largest_backward : loops.largest)
                        : (p.backward() ? loops.average_backward : loops.average);
  }

  // Rows of windows [begin, end) of a plane.
  void run(std::int64_t plane, std::int64_t begin, std::int64_t end) const {
    if (in_place_)
      whole_rows(plane, begin, end);
    else
      for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t c = 0; c < axes_.columns.out; c += kWindows)
          through_buffers(plane, r, c, std::min(kWindows, axes_.columns.out - c));
    if (problem_.backward()) clear_rest(plane, begin, end);
  }

 private:
  void whole_rows(std::int64_t plane, std::int64_t begin, std::int64_t end) const {
    PairRows<C> rows{};
    rows.image = image_.at<C>(plane) + 2 * begin * image_.row;
    rows.image_row = image_.row;
    rows.windows = windows_.at<C>(plane) + begin * windows_.row;
    rows.windows_row = windows_.row;
    if (problem_.largest()) {
      rows.indices = indices_.at<std::int32_t>(plane) + begin * indices_.row;
      rows.indices_row = indices_.row;
    }
    rows.rows = end - begin;
    rows.n = axes_.columns.out;
    rows.width = axes_.columns.in;
    rows.first = 2 * begin * rows.width;
    loop_(rows);
  }

  void through_buffers(std::int64_t plane, std::int64_t r, std::int64_t c, std::int64_t n) const {
    alignas(64) C pixels[2 * kPortion];
    alignas(64) C values[kWindows];
    alignas(64) std::int32_t places[kWindows];
    const PortionOps& ops = portion_ops();
    const int count = static_cast<int>(n);
    const std::int64_t at_image = image_.offset(plane) + 2 * (r * image_.row + c * image_.column);
    const std::int64_t at_windows = windows_.offset(plane) + r * windows_.row + c * windows_.column;
    std::int32_t* indices = nullptr;
    if (problem_.largest())
      indices = indices_.at<std::int32_t>(plane) + r * indices_.row + c * indices_.column;
    if (problem_.backward()) {
      load_portion(ops, dtype_, windows_.view->data, at_windows, windows_.column, count, values);
      if (indices != nullptr) ops.load_i32(indices, 0, indices_.column, count, places);
    } else {
      for (int k = 0; k < 2; ++k)
        load_portion(ops, dtype_, image_.view->data, at_image + k * image_.row, image_.column,
                     2 * count, pixels + k * kPortion);
    }
    PairRows<C> rows{};
    rows.image = pixels;
    rows.image_row = kPortion;
    rows.windows = values;
    rows.indices = indices == nullptr ? nullptr : places;
    rows.rows = 1;
    rows.n = n;
    rows.width = axes_.columns.in;
    rows.first = 2 * (r * rows.width + c);
    loop_(rows);
    if (problem_.backward()) {
      for (int k = 0; k < 2; ++k)
        store_portion(ops, dtype_, image_.view->data, at_image + k * image_.row, image_.column,
                      2 * count, pixels + k * kPortion);
    } else {
      store_portion(ops, dtype_, windows_.view->data, at_windows, windows_.column, count, values);
      if (indices != nullptr)
        for (std::int64_t i = 0; i < n; ++i) indices[i * indices_.column] = places[i];
    }
  }

  // Pixels of an odd last column and row belong to no window.
  void clear_rest(std::int64_t plane, std::int64_t begin, std::int64_t end) const {
    static constexpr C kZeros[kPortion] = {};
    const std::int64_t width = axes_.columns.in, height = axes_.rows.in;
    if (width % 2 == 0 && height % 2 == 0) return;
    const std::int64_t at = image_.offset(plane);
    const auto clear = [&](std::int64_t h, std::int64_t w, std::int64_t n) {
      store_portion(portion_ops(), dtype_, image_.view->data,
                    at + h * image_.row + w * image_.column, image_.column, static_cast<int>(n),
                    kZeros);
    };
    if (width % 2 == 1)
      for (std::int64_t h = 2 * begin; h < 2 * end; ++h) clear(h, width - 1, 1);
    if (height % 2 == 1 && end == axes_.rows.out)
      for (std::int64_t w = 0; w < width; w += kPortion)
        clear(height - 1, w, std::min<std::int64_t>(kPortion, width - w));
  }

  const PoolProblem& problem_;
  PoolAxes axes_;
  Planes image_, windows_, indices_;
  Dtype dtype_;
  bool in_place_;
  void (*loop_)(const PairRows<C>&);
};

template <class C>
void run(const Stream& stream, const PoolProblem& p, const Operands& o) {
  const Pairs<C> pairs(p, o);
  const PoolAxes axes = p.axes();
  for_plane_rows(stream, p.planes(), axes.rows.out, 2 * axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   pairs.run(plane, begin, end);
                 });
}

}  // namespace

Result<void> pool_pairs_cpu(const Stream& stream, Workspace, const PoolProblem& p,
                            const Operands& o) {
  if (p.element_dtype == Dtype::f64)
    run<double>(stream, p, o);
  else
    run<float>(stream, p, o);
  return {};
}

}  // namespace planck
