// cuda:warpgroups, cuda:mma_sync and cuda:digits of conv2d_weight. Windows and slopes (dy) of some
// chunks of places are laid side by side, and tensor cores multiply each chunk as a batch of its
// own; sums of chunks wait in the workspace, f32 that are added from left to right, or integers.
#include "planck/loops/gemm/cuda/exact_tiles.cuh"
#include "planck/ops/conv/cuda/chunk_sums.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/laid_products.cuh"
#include "planck/ops/conv/cuda/lay_rows.cuh"
#include "planck/ops/conv/cuda/places_out.cuh"
#include "planck/ops/conv/cuda/turn_windows.cuh"

namespace planck {

namespace conv_device {
namespace {

__global__ void join_chunks(ChunkSums a, const std::int64_t* sums, Magnitudes x, Magnitudes dy) {
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < a.count();
       at += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t f = at / a.columns, column = at % a.columns;
    const std::int64_t tap = column / a.w.channels;
    const std::int64_t channel = f / a.filters * a.w.channels + column % a.w.channels;
    math::exact::Wide sum;
    for (std::int64_t chunk = 0; chunk < a.chunks; ++chunk)
      sum.add(sums[chunk * a.chunk + a.sum(f, column)]);
    float value = math::exact::round_exact(
        sum, math::exact::exponent_of_sum(x.exponent(channel), dy.exponent(f)));
    if (x.odd[channel] != 0 || dy.odd[f] != 0) {
      const NotFiniteSum found = not_finite_slope(a.w, a.x, a.dy, f, tap, channel);
      if (found.any()) value = found.value();
    }
    static_cast<float*>(a.out.data)[a.offset(f, column)] = value;
  }
}

class WeightProducts {
 public:
  WeightProducts(const Stream& stream, Workspace workspace, const ConvProblem& p,
                 const Operands& operands, gemm_device::Instruction by)
      : stream_(stream),
        p_(p),
        by_(by),
        x_(operands[conv_operand::first]),
        dy_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        windows_(conv_detail::windows_of(p, 0)),
        slopes_{own_places(0), own_places(1), p.batch(), p.filters(), p.filters()},
        layout_(p),
        keys_(p),
        data_(static_cast<char*>(workspace.data)),
        of_x_(data_ + layout_.magnitudes.of_image, keys_.of_image),
        of_dy_(data_ + layout_.magnitudes.of_other, keys_.of_other),
        operands_(operands) {}

  template <class T>
  Result<void> run() {
    return each_part(
        [&](const Part& part) { return multiply<T>(part); },
        [&] { return launch_add_chunks<T>(stream_, all_sums(), at<float>(layout_.sums)); });
  }
  Result<void> run_exact() {
    if (auto ok = find_both_magnitudes(stream_, p_, operands_, of_x_, of_dy_, keys_); !ok)
      return ok;
    return each_part([&](const Part& part) { return multiply_digits(part); },
                     [&] {
                       constexpr int kThreads = 256;
                       return launch(
                           stream_, "conv2d_weight", join_chunks,
                           std::min<std::int64_t>(ceil_div(chunk_sums(), kThreads), 1 << 16),
                           kThreads, all_sums(), at<std::int64_t>(layout_.sums), of_x_, of_dy_);
                     });
  }

 private:
  struct Part {
    std::int64_t group, chunk, chunks, column, columns;
  };

  template <class T>
  T* at(std::size_t where) const {
    return reinterpret_cast<T*>(data_ + where);
  }
  conv_detail::WindowAxis own_places(int axis) const {
    const std::int64_t extent = p_.extent(axis);
    return {extent, 1, 0, 1, 0, 0, 1, 0, 1, extent};
  }
  std::int64_t length() const { return layout_.chunks.length; }

  template <class Multiply, class End>
  Result<void> each_part(Multiply multiply, End end) {
    for (std::int64_t g = 0; g < p_.groups(); ++g)
      for (std::int64_t c = 0; c < layout_.chunks.count; c += layout_.some)
        for (std::int64_t q = 0; q < layout_.columns; q += layout_.some_columns)
          if (auto ok = multiply(Part{g, c, std::min(layout_.some, layout_.chunks.count - c), q,
                                      std::min(layout_.some_columns, layout_.columns - q)});
              !ok)
            return ok;
    return end();
  }

  // Where sums of a part begin, in elements.
  std::int64_t first_sum(const Part& part) const {
    return (part.chunk * p_.weight[0] + part.group * p_.filters()) * layout_.columns + part.column;
  }
  std::int64_t chunk_sums() const { return p_.weight[0] * layout_.columns; }

  template <class E>
  bool packs(const Windows& w, const View& v, const Part& part, std::int64_t column) const {
    constexpr std::int64_t kPack = 16 / sizeof(E);
    const Strides& s = v.strides;
    return s[1] == 1 && w.channels % kPack == 0 && column % kPack == 0 && part.columns >= 0 &&
           s[0] % kPack == 0 && s[2] % kPack == 0 && s[3] % kPack == 0 &&
           reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
  }

  template <class T>
  Result<void> multiply(const Part& part) const {
    const std::int64_t places = part.chunks * length(), first = part.chunk * length();
    const std::int64_t filters = p_.filters();
    gemm::Geometry g{};
    g.m = filters, g.n = part.columns, g.k = length();
    g.c = {at<float>(layout_.sums) + first_sum(part), Dtype::f32, layout_.columns, 1};
    if constexpr (sizeof(T) == 2) {
      using E = std::uint16_t;
      const Plain<E> x{at<E>(layout_.windows), places, round_up(part.columns, 8)};
      const Plain<E> dy{at<E>(layout_.slopes), places, round_up(filters, 8)};
      const PlaceRows<E> windows{WindowSource(windows_, x_, false),
                                 first,
                                 static_cast<int>(part.column),
                                 static_cast<int>(part.columns),
                                 packs<E>(windows_, x_, part, part.column),
                                 1};
      const PlaceRows<E> slopes{
          WindowSource(slopes_, dy_, false), first, 0, static_cast<int>(filters),
          packs<E>(slopes_, dy_, part, 0),   1};
      if (auto ok = lay(stream_, OfGroup<PlaceRows<E>>{windows, static_cast<int>(part.group)}, x, 1,
                        x_.strides[1] != 1);
          !ok)
        return ok;
      if (auto ok = lay(stream_, OfGroup<PlaceRows<E>>{slopes, static_cast<int>(part.group)}, dy, 1,
                        dy_.strides[1] != 1);
          !ok)
        return ok;
      g.a = {dy.out, p_.element_dtype, 1, dy.pitch};
      g.b = {x.out, p_.element_dtype, x.pitch, 1};
      g.batches = batches_of(part.chunks, length() * dy.pitch, length() * x.pitch, chunk_sums());
    } else {
      const auto turned = [&](const Windows& w, const View& v, std::int64_t column,
                              std::int64_t columns, std::size_t to) {
        return turn(stream_, WindowsToTurn{WindowSource(w, v, false), first, places,
                                           static_cast<int>(part.group), static_cast<int>(column),
                                           static_cast<int>(columns), static_cast<int>(w.taps()),
                                           at<float>(to), v.strides[1] == 1});
      };
      if (auto ok = turned(windows_, x_, part.column, part.columns, layout_.windows); !ok)
        return ok;
      if (auto ok = turned(slopes_, dy_, 0, filters, layout_.slopes); !ok) return ok;
      g.a = {at<float>(layout_.slopes), Dtype::f32, places, 1};
      g.b = {at<float>(layout_.windows), Dtype::f32, 1, places};
      g.batches = batches_of(part.chunks, length(), length(), chunk_sums());
    }
    return multiply_laid<T>(stream_, by_, g, sizeof(T) == 2);
  }

  // Along places: columns of the windows, and filters.
  Result<void> lay_both(const Part& part, const Planes& x, const Planes& dy) const {
    const std::int64_t first = part.chunk * length();
    const int group = static_cast<int>(part.group);
    if (auto ok = lay(stream_,
                      TapRows<float>{WindowSource(windows_, x_, true), group, first, length(),
                                     static_cast<int>(part.column)},
                      x, part.chunks, false);
        !ok)
      return ok;
    return lay(stream_, TapRows<float>{WindowSource(slopes_, dy_, true), group, first, length(), 0},
               dy, part.chunks, false);
  }

  Result<void> multiply_digits(const Part& part) const {
    const Planes x{at<std::int8_t>(layout_.windows), part.columns, length(), of_x_, nullptr};
    const Planes dy{at<std::int8_t>(layout_.slopes), p_.filters(), length(), of_dy_, nullptr};
    if (auto ok = lay_both(part, x, dy); !ok) return ok;
    gemm_device::ExactArgs e{};
    gemm_device::TensorArgs<float>& product = e.product;
    product.m = static_cast<int>(p_.filters()), product.n = static_cast<int>(part.columns);
    product.k = static_cast<int>(length());
    product.walk.batches = static_cast<int>(part.chunks);
    product.a_batches = product.b_batches = 1;
    e.waiting = at<std::int64_t>(layout_.waiting);
    e.sums = at<std::int64_t>(layout_.sums) + first_sum(part);
    e.sums_row = layout_.columns, e.sums_batch = chunk_sums();
    const auto planes = [&](const Planes& y) {
      return gemm_device::TensorOperand{y.out, y.rows,          y.pitch,         y.pitch,
                                        1,     3 * part.chunks, y.rows * y.pitch};
    };
    return gemm_device::launch_digits(native(stream_), gemm_device::processors_of(stream_), 144,
                                      planes(dy), planes(x), e);
  }

  ChunkSums all_sums() const {
    return {windows_,        Tensor4(x_),     Tensor4(dy_), Tensor4(out_),
            p_.filters(),    layout_.columns, p_.weight[0], layout_.chunks.count,
            layout_.columns, p_.channels(),   chunk_sums()};
  }

  const Stream& stream_;
  const ConvProblem& p_;
  gemm_device::Instruction by_;
  const View &x_, &dy_, &out_;
  Windows windows_, slopes_;
  WeightLayout layout_;
  ExactKeys keys_;
  char* data_;
  Magnitudes of_x_, of_dy_;
  const Operands& operands_;
};

}  // namespace
}  // namespace conv_device

Result<void> conv_weight_tensor_cores(const Stream& stream, Workspace workspace,
                                      const ConvProblem& p, const Operands& operands,
                                      gemm_device::Instruction by) {
  using conv_device::WeightProducts;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (numel(p.weight) == 0) return {};
  if (p.y()[0] == 0)  // sums of nothing
    return p.math == ProductMath::exact ? conv_integers_cuda(stream, workspace, p, operands)
                                        : conv_integer_lanes_cuda(stream, workspace, p, operands);
  WeightProducts products(stream, workspace, p, operands, by);
  if (p.math == ProductMath::exact) return products.run_exact();
  if (p.element_dtype == Dtype::bf16) return products.run<bf16>();
  return p.element_dtype == Dtype::f16 ? products.run<f16>() : products.run<float>();
}

}  // namespace planck
