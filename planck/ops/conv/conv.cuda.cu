// cuda:places: a thread owns one place of the output and kRows of its rows (filters of y, channels
// of dx), and walks k in the promised order: what it reads of the image serves all its rows, and
// neighbouring threads read neighbouring columns.
//
// cuda:chunks: a thread owns one element of dweight and one chunk of places; a second kernel adds
// up sums of chunks in ascending order.
#include "planck/loops/floats.cuh"
#include "planck/loops/launch.cuh"
#include "planck/ops/conv/chunks.h"
#include "planck/ops/conv/conv.cuda.h"
#include "planck/ops/matmul/tile.cuh"

namespace planck {

namespace {

constexpr int kThreads = 256, kRows = 4;

struct Four {
  std::int64_t at[4];
};
Four four(const Extents& e) { return {{e[0], e[1], e[2], e[3]}}; }

// One convolution: extents of the output's places, of the image that is read and of the kernel.
template <class T>
struct ConvArgs {
  using Output = typename matmul_device::Stored<T>::Output;
  const T *image, *weight;
  Output* out;
  Four image_strides, weight_strides, out_strides;
  std::int64_t batch, height, width;       // places
  std::int64_t image_height, image_width;  // of x, or of dy
  std::int64_t groups, rows, depth;        // rows and summed channels (filters) of a group
  std::int64_t kernel[2], stride[2], padding[2], dilation[2];
};

__device__ __forceinline__ std::int32_t number(std::int8_t v) { return v; }
template <class T>
__device__ __forceinline__ Compute<T> number(T v) {
  return widen(v);
}
template <class W>
__device__ __forceinline__ W add_product(W a, W b, W sum) {
  if constexpr (std::is_same_v<W, std::int32_t>)
    return sum + a * b;
  else
    return matmul_device::multiply_add(a, b, sum);
}

// Where tap u meets the image for a place; false where the stride passes it by.
template <bool kForward>
__device__ __forceinline__ bool meet(std::int64_t place, std::int64_t u, std::int64_t stride,
                                     std::int64_t padding, std::int64_t dilation,
                                     std::int64_t& at) {
  if (kForward) {
    at = place * stride + u * dilation - padding;
    return true;
  }
  at = place + padding - u * dilation;
  if (at % stride != 0) return false;
  at /= stride;
  return true;
}

template <class T, bool kForward>
__global__ void __launch_bounds__(kThreads) convolve_places(const __grid_constant__ ConvArgs<T> a) {
  using Word = typename matmul_device::Stored<T>::Word;
  const std::int64_t places = a.batch * a.height * a.width;
  const std::int64_t id = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t blocks = (a.rows + kRows - 1) / kRows;
  if (id >= places * blocks * a.groups) return;
  const std::int64_t place = id % places, group = id / places / blocks;
  const std::int64_t row = id / places % blocks * kRows;
  const std::int64_t j = place % a.width, i = place / a.width % a.height;
  const std::int64_t n = place / a.width / a.height;
  // The weight's axes: rows, and what is summed over.
  constexpr int kRow = kForward ? 0 : 1, kSummed = kForward ? 1 : 0;
  const T* image = a.image + n * a.image_strides.at[0] + group * a.depth * a.image_strides.at[1];
  const T* weight = a.weight + group * (kForward ? a.rows : a.depth) * a.weight_strides.at[0];
  const T* weights[kRows];
  Word sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t of = row + r < a.rows ? row + r : a.rows - 1;
    weights[r] = weight + of * a.weight_strides.at[kRow];
    sums[r] = 0;
  }
  for (std::int64_t c = 0; c < a.depth; ++c)
    for (std::int64_t u = 0; u < a.kernel[0]; ++u) {
      std::int64_t h;
      if (!meet<kForward>(i, u, a.stride[0], a.padding[0], a.dilation[0], h)) continue;
      for (std::int64_t v = 0; v < a.kernel[1]; ++v) {
        std::int64_t w;
        if (!meet<kForward>(j, v, a.stride[1], a.padding[1], a.dilation[1], w)) continue;
        const bool inside = h >= 0 && h < a.image_height && w >= 0 && w < a.image_width;
        Word x = 0;
        if (inside)
          x = number(image[c * a.image_strides.at[1] + h * a.image_strides.at[2] +
                           w * a.image_strides.at[3]]);
        const std::int64_t tap = c * a.weight_strides.at[kSummed] + u * a.weight_strides.at[2] +
                                 v * a.weight_strides.at[3];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          sums[r] = add_product<Word>(number(weights[r][tap]), x, sums[r]);
      }
    }
  auto* out = a.out + n * a.out_strides.at[0] + i * a.out_strides.at[2] + j * a.out_strides.at[3];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    if (row + r < a.rows)
      matmul_device::store_one<T>(out[(group * a.rows + row + r) * a.out_strides.at[1]], sums[r]);
}

template <class T>
Result<void> launch_places(const Stream& stream, const ConvProblem& p, const Operands& operands) {
  const bool forward = p.kind == ConvKind::conv2d;
  const View &image = operands[conv_operand::first], &weight = operands[conv_operand::second];
  const View& out = operands[conv_operand::out];
  ConvArgs<T> a{};
  a.image = static_cast<const T*>(image.data);
  a.weight = static_cast<const T*>(weight.data);
  a.out = static_cast<typename ConvArgs<T>::Output*>(out.data);
  a.image_strides = four(image.strides);
  a.weight_strides = four(weight.strides);
  a.out_strides = four(out.strides);
  a.batch = out.shape[0], a.height = out.shape[2], a.width = out.shape[3];
  a.image_height = image.shape[2], a.image_width = image.shape[3];
  a.groups = p.groups();
  a.rows = forward ? p.filters() : p.channels();
  a.depth = forward ? p.channels() : p.filters();
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    a.kernel[axis] = p.weight[2 + axis];
    a.stride[axis] = p.options.stride[at];
    a.padding[axis] = p.options.padding[at];
    a.dilation[axis] = p.options.dilation[at];
  }
  const std::int64_t threads = a.batch * a.height * a.width * ceil_div(a.rows, kRows) * a.groups;
  const std::int64_t blocks = ceil_div(threads, kThreads);
  if constexpr (!std::is_same_v<T, std::int8_t>)
    if (!forward)
      return launch(stream, "conv2d_input", convolve_places<T, false>, blocks, kThreads, a);
  return launch(stream, "conv2d", convolve_places<T, true>, blocks, kThreads, a);
}

template <class T>
struct WeightArgs {
  const T *x, *dy;
  Compute<T>* sums;  // [chunk][element]
  T* out;
  Four x_strides, dy_strides, out_strides, shape;  // shape: of dweight
  std::int64_t batch, height, width;               // places
  std::int64_t x_height, x_width, filters;         // filters of a group
  std::int64_t stride[2], padding[2], dilation[2];
  std::int64_t chunks, length;
};

template <class T>
__device__ __forceinline__ void element_at(const WeightArgs<T>& a, std::int64_t element,
                                           std::int64_t (&at)[4]) {
#pragma unroll
  for (int d = 3; d > 0; --d) {
    at[d] = element % a.shape.at[d];
    element /= a.shape.at[d];
  }
  at[0] = element;
}

template <class T>
__global__ void __launch_bounds__(kThreads) weight_chunks(const __grid_constant__ WeightArgs<T> a) {
  const std::int64_t elements = a.shape.at[0] * a.shape.at[1] * a.shape.at[2] * a.shape.at[3];
  const std::int64_t id = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (id >= elements * a.chunks) return;
  const std::int64_t chunk = id / elements;
  std::int64_t e[4];  // f, c, u, v
  element_at(a, id % elements, e);
  const std::int64_t channel = e[0] / a.filters * a.shape.at[1] + e[1];
  const T* x = a.x + channel * a.x_strides.at[1];
  const T* dy = a.dy + e[0] * a.dy_strides.at[1];
  const std::int64_t all = a.batch * a.height * a.width, begin = chunk * a.length;
  const std::int64_t end = begin + a.length < all ? begin + a.length : all;
  std::int64_t j = begin % a.width, i = begin / a.width % a.height;
  std::int64_t n = begin / a.width / a.height;
  Compute<T> sum = 0;
  for (std::int64_t place = begin; place < end; ++place) {
    const std::int64_t h = i * a.stride[0] + e[2] * a.dilation[0] - a.padding[0];
    const std::int64_t w = j * a.stride[1] + e[3] * a.dilation[1] - a.padding[1];
    Compute<T> seen = 0;
    if (h >= 0 && h < a.x_height && w >= 0 && w < a.x_width)
      seen = widen(x[n * a.x_strides.at[0] + h * a.x_strides.at[2] + w * a.x_strides.at[3]]);
    const Compute<T> slope =
        widen(dy[n * a.dy_strides.at[0] + i * a.dy_strides.at[2] + j * a.dy_strides.at[3]]);
    sum = matmul_device::multiply_add(slope, seen, sum);
    if (++j == a.width) {
      j = 0;
      if (++i == a.height) i = 0, ++n;
    }
  }
  a.sums[id] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_chunks(const __grid_constant__ WeightArgs<T> a) {
  const std::int64_t elements = a.shape.at[0] * a.shape.at[1] * a.shape.at[2] * a.shape.at[3];
  const std::int64_t id = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (id >= elements) return;
  Compute<T> total = a.sums[id];
  for (std::int64_t chunk = 1; chunk < a.chunks; ++chunk) total += a.sums[chunk * elements + id];
  std::int64_t e[4], at = 0;
  element_at(a, id, e);
#pragma unroll
  for (int d = 0; d < 4; ++d) at += e[d] * a.out_strides.at[d];
  matmul_device::store_one<T>(a.out[at], total);
}

template <class T>
Result<void> launch_weight(const Stream& stream, Workspace workspace, const ConvProblem& p,
                           const Operands& operands) {
  const View &x = operands[conv_operand::first], &dy = operands[conv_operand::second];
  const View& out = operands[conv_operand::out];
  const conv_detail::Chunks chunks = conv_detail::chunks_of(p);
  WeightArgs<T> a{};
  a.x = static_cast<const T*>(x.data);
  a.dy = static_cast<const T*>(dy.data);
  a.sums = static_cast<Compute<T>*>(workspace.data);
  a.out = static_cast<T*>(out.data);
  a.x_strides = four(x.strides);
  a.dy_strides = four(dy.strides);
  a.out_strides = four(out.strides);
  a.shape = four(out.shape);
  a.batch = dy.shape[0], a.height = dy.shape[2], a.width = dy.shape[3];
  a.x_height = x.shape[2], a.x_width = x.shape[3];
  a.filters = p.filters();
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    a.stride[axis] = p.options.stride[at];
    a.padding[axis] = p.options.padding[at];
    a.dilation[axis] = p.options.dilation[at];
  }
  a.chunks = chunks.count, a.length = chunks.length;
  const std::int64_t elements = numel(p.weight);
  if (auto ok = launch(stream, "conv2d_weight", weight_chunks<T>,
                       ceil_div(elements * a.chunks, kThreads), kThreads, a);
      !ok)
    return ok;
  return launch(stream, "conv2d_weight", add_chunks<T>, ceil_div(elements, kThreads), kThreads, a);
}

}  // namespace

Result<void> conv_cuda(const Stream& stream, Workspace, const ConvProblem& p,
                       const Operands& operands) {
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  switch (p.element_dtype) {
    case Dtype::f64:
      return launch_places<double>(stream, p, operands);
    case Dtype::f16:
      return launch_places<f16>(stream, p, operands);
    case Dtype::bf16:
      return launch_places<bf16>(stream, p, operands);
    case Dtype::s8:
      return launch_places<std::int8_t>(stream, p, operands);
    default:
      return launch_places<float>(stream, p, operands);
  }
}

Result<void> conv_weight_cuda(const Stream& stream, Workspace workspace, const ConvProblem& p,
                              const Operands& operands) {
  if (numel(p.weight) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  switch (p.element_dtype) {
    case Dtype::f64:
      return launch_weight<double>(stream, workspace, p, operands);
    case Dtype::f16:
      return launch_weight<f16>(stream, workspace, p, operands);
    case Dtype::bf16:
      return launch_weight<bf16>(stream, workspace, p, operands);
    default:
      return launch_weight<float>(stream, workspace, p, operands);
  }
}

}  // namespace planck
