// cuda:integer_lanes and cuda:integers: convolutions of tensor_core and exact on any GPU, by the
// definitions themselves, a thread for each element of the output.
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/math/products/tensor_core.h"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/cuda/magnitudes.cuh"
#include "planck/ops/conv/host/chunks.h"

namespace planck {

namespace conv_device {
namespace {

namespace rule = math::tensor_core;

template <class T>
using FormatOf =
    std::conditional_t<std::is_same_v<T, bf16>, rule::Bf16,
                       std::conditional_t<std::is_same_v<T, f16>, rule::F16, rule::Tf32>>;

template <class T>
__device__ T stored(float sum) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(sum, 0.0f)));
  else
    return canonical_nan(sum);
}

struct Images {
  Windows w;
  Tensor4 image;
  WeightOperand weight;
  Tensor4 out;
  std::int64_t groups, rows;
};
struct Slopes {
  Windows w;
  Tensor4 x, dy, out;
  std::int64_t filters, count;  // of a group; elements of dweight
  conv_detail::Chunks chunks;
};

// Element `at` of y or dx, places innermost.
struct ImageElement {
  Place place;
  std::int64_t channel, group, row;
  __device__ ImageElement(const Images& a, std::int64_t at) {
    const std::int64_t pixels = a.w.in_image(), all = a.groups * a.rows;
    channel = at / pixels % all;
    place = place_of(a.w, at / pixels / all * pixels + at % pixels);
    group = channel / a.rows, row = channel % a.rows;
  }
};
// Element `at` of dweight, (f, c, u, v) of the dense tensor.
struct SlopeElement {
  std::int64_t f, c, tap, channel;
  __device__ SlopeElement(const Slopes& a, std::int64_t at) {
    const std::int64_t taps = a.w.taps();
    tap = at % taps, c = at / taps % a.w.channels, f = at / taps / a.w.channels;
    channel = f / a.filters * a.w.channels + c;
  }
  __device__ std::int64_t offset(const Slopes& a) const {
    return f * a.out.strides[0] + c * a.out.strides[1] + tap / a.w.across.taps * a.out.strides[2] +
           tap % a.w.across.taps * a.out.strides[3];
  }
};

// Calls f(at) for all of this thread's elements.
template <class F>
__device__ void each_element(std::int64_t count, F f) {
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count;
       at += std::int64_t{gridDim.x} * blockDim.x)
    f(at);
}

// read(k, a, b) gives the factors of product k < depth, or zeros.
template <class Format, class Read>
__device__ float sum_of_blocks(std::int64_t begin, std::int64_t end, Read read) {
  typename Format::Bits a[Format::kBlock], b[Format::kBlock];
  float c = 0;
  for (std::int64_t k = begin; k < end; k += Format::kBlock) {
    for (int i = 0; i < Format::kBlock; ++i) {
      a[i] = b[i] = 0;
      if (k + i < end) read(k + i, a[i], b[i]);
    }
    c = rule::add_block<Format>(c, a, b);
  }
  return c;
}

template <class T>
__global__ void tensor_core_images(Images a) {
  using Bits = typename FormatOf<T>::Bits;
  each_element(a.w.places() * a.groups * a.rows, [&](std::int64_t at) {
    const ImageElement e(a, at);
    const float sum =
        sum_of_blocks<FormatOf<T>>(0, a.w.depth(), [&](std::int64_t k, Bits& x, Bits& y) {
          const std::int64_t tap = k / a.w.tap_depth, c = k % a.w.tap_depth;
          if (c >= a.w.channels) return;
          x = window<Bits>(a.w, a.image, e.place, tap, e.group * a.w.channels + c);
          y = a.weight.at<Bits>(a.w, e.group, e.row, tap, c);
        });
    static_cast<T*>(a.out.data)[offset_of(a.w, a.out, e.place, e.channel)] = stored<T>(sum);
  });
}

template <class T>
__global__ void tensor_core_slopes(Slopes a) {
  using Bits = typename FormatOf<T>::Bits;
  each_element(a.count, [&](std::int64_t at) {
    const SlopeElement e(a, at);
    const std::int64_t places = a.w.places();
    float total = 0;
    for (std::int64_t chunk = 0; chunk < a.chunks.count; ++chunk) {
      const std::int64_t begin = chunk * a.chunks.length;
      const float sum = sum_of_blocks<FormatOf<T>>(
          begin, min(places, begin + a.chunks.length), [&](std::int64_t k, Bits& x, Bits& y) {
            const Place place = place_of(a.w, k);
            x = window<Bits>(a.w, a.x, place, e.tap, e.channel);
            y = a.dy.at<Bits>(place.n, e.f, place.i, place.j);
          });
      total = chunk == 0 ? sum : __fadd_rn(total, sum);
    }
    static_cast<T*>(a.out.data)[e.offset(a)] = stored<T>(total);
  });
}

// Σ q q', or what IEEE 754 says where a product is not finite.
struct ExactSum {
  math::exact::Wide sum;
  rule::NotFinite found;
  __device__ void add(float x, int x_exponent, float y, int y_exponent) {
    constexpr std::uint32_t kInf = 0x7f800000u;
    const std::uint32_t a = math::exact::magnitude_of(x), b = math::exact::magnitude_of(y);
    if (a < kInf && b < kInf)
      sum.add(static_cast<std::int64_t>(math::exact::rounded(x, x_exponent)) *
              math::exact::rounded(y, y_exponent));
    else
      found.add(a > kInf || b > kInf || a == 0 || b == 0,
                (math::bits_of(x) ^ math::bits_of(y)) >> 31 != 0);
  }
  __device__ float value(int x_exponent, int y_exponent) const {
    if (found.any()) return found.value();
    return math::exact::round_exact(sum, math::exact::exponent_of_sum(x_exponent, y_exponent));
  }
};

__global__ void exact_images(Images a, Magnitudes images, Magnitudes weights) {
  each_element(a.w.places() * a.groups * a.rows, [&](std::int64_t at) {
    const ImageElement e(a, at);
    const int x_exponent = images.exponent(e.place.n * a.groups + e.group);
    const int y_exponent = weights.exponent(e.channel);
    ExactSum sum;
    for (std::int64_t tap = 0; tap < a.w.taps(); ++tap)
      for (std::int64_t c = 0; c < a.w.channels; ++c)
        sum.add(window<float>(a.w, a.image, e.place, tap, e.group * a.w.channels + c), x_exponent,
                a.weight.at<float>(a.w, e.group, e.row, tap, c), y_exponent);
    static_cast<float*>(a.out.data)[offset_of(a.w, a.out, e.place, e.channel)] =
        sum.value(x_exponent, y_exponent);
  });
}

__global__ void exact_slopes(Slopes a, Magnitudes x, Magnitudes dy) {
  each_element(a.count, [&](std::int64_t at) {
    const SlopeElement e(a, at);
    const int x_exponent = x.exponent(e.channel), y_exponent = dy.exponent(e.f);
    ExactSum sum;
    for (std::int64_t k = 0; k < a.w.places(); ++k) {
      const Place place = place_of(a.w, k);
      sum.add(window<float>(a.w, a.x, place, e.tap, e.channel), x_exponent,
              a.dy.at<float>(place.n, e.f, place.i, place.j), y_exponent);
    }
    static_cast<float*>(a.out.data)[e.offset(a)] = sum.value(x_exponent, y_exponent);
  });
}

constexpr int kThreads = 128;
std::int64_t blocks_for(std::int64_t count) {
  return std::min<std::int64_t>(ceil_div(count, kThreads), 1 << 20);
}

Slopes slopes_of(const ConvProblem& p, const Operands& operands) {
  return {conv_detail::windows_of(p, 0),
          Tensor4(operands[conv_operand::first]),
          Tensor4(operands[conv_operand::second]),
          Tensor4(operands[conv_operand::out]),
          p.filters(),
          numel(p.weight),
          conv_detail::chunks_of(p)};
}

// f(Images) for each phase.
template <class F>
Result<void> each_phase(const ConvProblem& p, const Operands& operands, F f) {
  for (std::int64_t phase = 0; phase < conv_detail::phases_of(p); ++phase) {
    const Images a{
        conv_detail::windows_of(p, phase),
        Tensor4(operands[conv_operand::first]),
        {Tensor4(operands[conv_operand::second]), p.filters(), p.kind == ConvKind::conv2d},
        Tensor4(operands[conv_operand::out]),
        p.groups(),
        conv_detail::rows_of(p)};
    if (auto ok = f(a, blocks_for(a.w.places() * a.groups * a.rows)); !ok) return ok;
  }
  return {};
}

template <class T>
Result<void> by_definition(const Stream& stream, const ConvProblem& p, const Operands& operands) {
  if (p.kind == ConvKind::conv2d_weight)
    return launch(stream, p.info().name.data(), tensor_core_slopes<T>, blocks_for(numel(p.weight)),
                  kThreads, slopes_of(p, operands));
  return each_phase(p, operands, [&](const Images& a, std::int64_t blocks) {
    return launch(stream, p.info().name.data(), tensor_core_images<T>, blocks, kThreads, a);
  });
}

}  // namespace
}  // namespace conv_device

Result<void> conv_integer_lanes_cuda(const Stream& stream, Workspace, const ConvProblem& p,
                                     const Operands& operands) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (p.element_dtype == Dtype::bf16) return conv_device::by_definition<bf16>(stream, p, operands);
  if (p.element_dtype == Dtype::f16) return conv_device::by_definition<f16>(stream, p, operands);
  return conv_device::by_definition<float>(stream, p, operands);
}

Result<void> conv_integers_cuda(const Stream& stream, Workspace workspace, const ConvProblem& p,
                                const Operands& operands) {
  using namespace conv_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  Parts parts;
  const ExactKeys keys(p);
  const MagnitudesLayout at(keys, parts);
  const Magnitudes image(static_cast<char*>(workspace.data) + at.of_image, keys.of_image);
  const Magnitudes other(static_cast<char*>(workspace.data) + at.of_other, keys.of_other);
  if (auto ok = find_both_magnitudes(stream, p, operands, image, other, keys); !ok) return ok;
  if (p.kind == ConvKind::conv2d_weight)
    return launch(stream, "conv2d_weight", exact_slopes, blocks_for(numel(p.weight)), kThreads,
                  slopes_of(p, operands), image, other);
  return each_phase(p, operands, [&](const Images& a, std::int64_t blocks) {
    return launch(stream, p.info().name.data(), exact_images, blocks, kThreads, a, image, other);
  });
}

}  // namespace planck
