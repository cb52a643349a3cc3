#include "planck/ops/conv/cpu/image.h"

#include <algorithm>
#include <cstring>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/parallel.h"

namespace planck::conv_detail {

namespace {

constexpr std::int64_t kWorthTask = 1 << 14;  // elements

void load(Dtype t, const void* data, std::int64_t at, std::int64_t stride, int n, float* out) {
  portion_ops().load_f32(t, data, at, stride, n, out);
}
void load(Dtype t, const void* data, std::int64_t at, std::int64_t stride, int n, double* out) {
  portion_ops().load_f64(t, data, at, stride, n, out);
}
void load(Dtype t, const void* data, std::int64_t at, std::int64_t stride, int n,
          std::int8_t* out) {
  portion_ops().gather_q(t, data, at, stride, n, reinterpret_cast<std::uint8_t*>(out));
}

// Rows are short: one call per row would take longer than the copy.
template <class T>
void copy_row(const T* from, std::int64_t n, T* to) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) std::memcpy(to + i, from + i, 8 * sizeof(T));
  for (; i < n; ++i) to[i] = from[i];
}

template <class T>
class Copy {
 public:
  Copy(const ImageLayout& layout, const View& x)
      : l_(layout),
        x_(x),
        top_(std::min(l_.top, l_.height)),
        left_(std::min(l_.left, l_.width)),
        rows_(std::clamp<std::int64_t>(l_.height - top_, 0, x.shape[2])),
        columns_(std::clamp<std::int64_t>(l_.width - left_, 0, x.shape[3])),
        dense_(x.dtype == dtype_of<T> && x.strides[3] == 1) {}

  // The borders are zeros already.
  void plane(std::int64_t n, std::int64_t c, T* out) const {
    std::fill(out, out + l_.channel(), T{0});
    const std::int64_t row = l_.row(), at = n * x_.strides[0] + c * x_.strides[1];
    out += top_ * row;
    if (!dense_ || l_.step != 1) {
      for (std::int64_t h = 0; h < rows_; ++h) columns(at + h * x_.strides[2], out + h * row);
      return;
    }
    const T* from = static_cast<const T*>(x_.data) + at;
    for (std::int64_t h = 0; h < rows_; ++h)
      copy_row(from + h * x_.strides[2], columns_, out + h * row + left_);
  }

  // One row of one channel: columns of the copy with the same remainder r modulo the step lie side
  // by side.
  void columns(std::int64_t at, T* out) const {
    const std::int64_t pitch = l_.pitch(), stride = x_.strides[3], end = left_ + columns_;
    for (std::int64_t r = 0; r < l_.step; ++r, out += pitch) {
      // Column r + step * j of the copy is column r + step * j - left of the image.
      const std::int64_t j0 = left_ <= r ? 0 : (left_ - r + l_.step - 1) / l_.step;
      const std::int64_t j1 = end <= r ? 0 : (end - r + l_.step - 1) / l_.step;
      const std::int64_t from = at + (r + l_.step * j0 - left_) * stride;
      for (std::int64_t j = j0; j < j1; j += kPortion)
        load(x_.dtype, x_.data, from + (j - j0) * l_.step * stride, l_.step * stride,
             static_cast<int>(std::min<std::int64_t>(kPortion, j1 - j)), out + j);
    }
  }

  // One row of all channels, side by side.
  void row_of_channels(std::int64_t n, std::int64_t row_of_copy, T* out) const {
    const std::int64_t h = row_of_copy - top_, channels = l_.channels;
    if (h < 0 || h >= rows_ || columns_ < l_.width) std::fill(out, out + l_.row(), T{0});
    if (h < 0 || h >= rows_) return;
    out += left_ * channels;
    const std::int64_t at = n * x_.strides[0] + h * x_.strides[2];
    if (dense_ && columns_ * channels < (std::int64_t{1} << 31)) {
      portion_ops().load_tile(x_.dtype, x_.data, at, x_.strides[1], static_cast<int>(columns_),
                              static_cast<int>(channels), out, static_cast<int>(channels));
      return;
    }
    T line[kPortion];
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t w = 0; w < columns_; w += kPortion) {
        const auto count = static_cast<int>(std::min<std::int64_t>(kPortion, columns_ - w));
        load(x_.dtype, x_.data, at + c * x_.strides[1] + w * x_.strides[3], x_.strides[3], count,
             line);
        for (int i = 0; i < count; ++i) out[(w + i) * channels + c] = line[i];
      }
  }

 private:
  const ImageLayout& l_;
  const View& x_;
  std::int64_t top_, left_;      // border, as much of it as the copy has
  std::int64_t rows_, columns_;  // of the image, that the copy has
  bool dense_;
};

}  // namespace

template <class T>
void copy_images(const Stream& stream, const ImageLayout& l, const View& x, std::int64_t first,
                 std::int64_t count, T* out) {
  const Copy<T> copy(l, x);
  const std::int64_t size = l.channels_last ? l.row() : l.channel();
  const std::int64_t each = l.channels_last ? l.height : l.channels, parts = count * each;
  if (size == 0 || parts == 0) return;
  const std::int64_t together = kWorthTask / size + 1;
  parallel_for(stream, (parts + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(parts, (task + 1) * together);
    for (std::int64_t t = task * together; t < end; ++t) {
      const std::int64_t n = first + t / each;
      if (l.channels_last)
        copy.row_of_channels(n, t % each, out + t * size);
      else
        copy.plane(n, t % each, out + t * size);
    }
  });
}

template void copy_images(const Stream&, const ImageLayout&, const View&, std::int64_t,
                          std::int64_t, float*);
template void copy_images(const Stream&, const ImageLayout&, const View&, std::int64_t,
                          std::int64_t, double*);
template void copy_images(const Stream&, const ImageLayout&, const View&, std::int64_t,
                          std::int64_t, std::int8_t*);

}  // namespace planck::conv_detail
