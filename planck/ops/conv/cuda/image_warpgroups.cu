// cuda:warpgroups, cuda:mma_sync and cuda:digits of conv2d and conv2d_input. Windows of some places
// at a time are laid side by side, along k, in a part of the workspace that the second-level cache
// mostly holds; then the tensor cores of loops/gemm multiply them by the weights. Sums go to the
// output where its channels lie side by side, else through the workspace.
#include "planck/loops/gemm/cuda/exact_tiles.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/laid_products.cuh"
#include "planck/ops/conv/cuda/lay_rows.cuh"
#include "planck/ops/conv/cuda/places_out.cuh"

namespace planck {

namespace conv_device {
namespace {

// Channels side by side, chunks of them within one tap, all at multiples of 16 bytes.
template <class E>
bool packs(const Windows& w, const View& v, int chunk) {
  constexpr std::int64_t kPack = 16 / sizeof(E);
  const Strides& s = v.strides;
  return s[1] == 1 && w.channels % chunk == 0 && w.tap_depth % chunk == 0 && s[0] % kPack == 0 &&
         s[2] % kPack == 0 && s[3] % kPack == 0 &&
         reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
}

class ImageProducts {
 public:
  ImageProducts(const Stream& stream, Workspace workspace, const ConvProblem& p,
                const Operands& operands, gemm_device::Instruction by)
      : stream_(stream),
        p_(p),
        by_(by),
        image_(operands[conv_operand::first]),
        weight_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        layout_(p),
        keys_(p),
        data_(static_cast<char*>(workspace.data)),
        images_(data_ + layout_.magnitudes.of_image, keys_.of_image),
        weights_(data_ + layout_.magnitudes.of_other, keys_.of_other),
        operands_(operands) {}

  Result<void> run() {
    if (layout_.exact)
      if (auto ok = find_both_magnitudes(stream_, p_, operands_, images_, weights_, keys_); !ok)
        return ok;
    for (std::int64_t phase = 0; phase < conv_detail::phases_of(p_); ++phase) {
      const Windows w = conv_detail::windows_of(p_, phase);
      auto ok = layout_.exact                     ? run_exact(w)
                : p_.element_dtype == Dtype::bf16 ? run_phase<bf16>(w)
                : p_.element_dtype == Dtype::f16  ? run_phase<f16>(w)
                                                  : run_phase<float>(w);
      if (!ok) return ok;
    }
    return {};
  }

 private:
  template <class T>
  T* part(std::size_t at) const {
    return reinterpret_cast<T*>(data_ + at);
  }
  std::int64_t rows() const { return conv_detail::rows_of(p_); }
  WeightOperand weight() const {
    return {Tensor4(weight_), p_.filters(), p_.kind == ConvKind::conv2d};
  }
  // Lanes go along places where these lie side by side in the image.
  bool along_places() const { return image_.strides[1] != 1; }

  // Windows of one tap that lie in the image as they would be laid: from one place to the next.
  std::optional<std::int64_t> laid_already(const Windows& w) const {
    const Strides& s = image_.strides;
    const std::int64_t pack = 16 / layout_.size, wide = w.across.places, high = w.down.places;
    const std::int64_t step = wide > 1 ? s[3] : high > 1 ? s[2] : s[0];
    const auto whole = [](const conv_detail::WindowAxis& a) {
      return a.taps == 1 && a.at == 0 && a.per_place == 1 && a.places == a.extent;
    };
    if (p_.groups() != 1 || !whole(w.down) || !whole(w.across) || s[1] != 1 || step <= 0 ||
        step % pack != 0 || reinterpret_cast<std::uintptr_t>(image_.data) % 16 != 0 ||
        (high > 1 && wide > 1 && s[2] != wide * step) ||
        (w.batch > 1 && w.in_image() > 1 && s[0] != w.in_image() * step))
      return std::nullopt;
    return step;
  }
  // C of places [first, ..): [place][group][row].
  gemm::Matrix sums_of(std::int64_t first, std::optional<std::int64_t> step) const {
    if (!step) return {data_ + layout_.sums, p_.element_dtype, p_.groups() * rows(), 1};
    const auto size = static_cast<std::int64_t>(bytes_for(p_.element_dtype, 1));
    return {static_cast<char*>(out_.data) + first * *step * size, p_.element_dtype, *step, 1};
  }

  template <class T>
  Result<void> zeros(const Windows& w) const {
    return put<Bits<T>>(stream_, w, out_, nullptr, 0, w.places());
  }

  template <class T>
  Result<void> run_phase(const Windows& w) const {
    using E = Bits<T>;
    constexpr int kChunk = Plain<E>::kChunk;
    if (w.depth() == 0) return zeros<T>(w);
    const std::int64_t pitch = layout_.pitch_of(w.depth()), groups = p_.groups();
    const Plain<E> weights{part<E>(layout_.weights), rows(), pitch};
    if (auto ok = lay(stream_, WeightRows<E>{w, weight(), rows(), false}, weights, groups, false);
        !ok)
      return ok;
    const auto direct = side_by_side_places(w, out_);
    const auto laid = laid_already(w);
    for (std::int64_t first = 0; first < w.places(); first += layout_.slab) {
      const std::int64_t count = std::min(layout_.slab, w.places() - first);
      const PlaceRows<E> places{
          WindowSource(w, image_, false), first, 0, static_cast<int>(w.depth()),
          packs<E>(w, image_, kChunk),    groups};
      const Plain<E> windows{part<E>(layout_.windows), count, pitch};
      if (!laid)
        if (auto ok = lay(stream_, places, windows, groups, along_places()); !ok) return ok;
      gemm::Geometry g{};
      g.m = count, g.n = rows(), g.k = laid ? w.channels : w.depth();
      g.a = {windows.out, p_.element_dtype, pitch, 1};
      if (laid) g.a = {static_cast<E*>(image_.data) + first * *laid, p_.element_dtype, *laid, 1};
      g.b = {weights.out, p_.element_dtype, 1, pitch};
      g.c = sums_of(first, direct);
      g.batches = batches_of(groups, count * pitch, rows() * pitch, rows());
      if (auto ok = multiply_laid<T>(stream_, by_, g); !ok) return ok;
      if (!direct)
        if (auto ok = put<E>(stream_, w, out_, part<E>(layout_.sums), first, count); !ok) return ok;
    }
    return {};
  }

  Result<void> run_exact(const Windows& w) const {
    if (w.depth() == 0) return zeros<float>(w);
    const std::int64_t pitch = layout_.pitch_of(w.depth()), groups = p_.groups();
    const Planes weights{part<std::int8_t>(layout_.weights), rows(), pitch, weights_,
                         part<int>(layout_.column_exponents)};
    if (auto ok =
            lay(stream_, WeightRows<float>{w, weight(), rows(), true}, weights, groups, false);
        !ok)
      return ok;
    const auto direct = side_by_side_places(w, out_);
    for (std::int64_t first = 0; first < w.places(); first += layout_.slab) {
      const std::int64_t count = std::min(layout_.slab, w.places() - first);
      const PlaceRows<float> places{
          WindowSource(w, image_, true),           first, 0, static_cast<int>(w.depth()),
          packs<float>(w, image_, Planes::kChunk), groups};
      const Planes windows{part<std::int8_t>(layout_.windows), count, pitch, images_,
                           part<int>(layout_.row_exponents)};
      if (auto ok = lay(stream_, places, windows, groups, along_places()); !ok) return ok;
      if (auto ok = multiply_digits(first, direct, windows, weights); !ok) return ok;
      if (!direct)
        if (auto ok = put<float>(stream_, w, out_, part<float>(layout_.sums), first, count); !ok)
          return ok;
    }
    constexpr int kThreads = 256;
    const std::int64_t all = w.places() * groups * rows();
    return launch(stream_, "conv2d", replace_not_finite,
                  std::min<std::int64_t>(ceil_div(all, kThreads), 2048), kThreads, w,
                  Tensor4(image_), weight(), Tensor4(out_), groups, rows(), images_, weights_,
                  keys_.of_image, keys_.of_other);
  }
  Result<void> multiply_digits(std::int64_t first, std::optional<std::int64_t> direct,
                               const Planes& windows, const Planes& weights) const {
    const gemm::Matrix c = sums_of(first, direct);
    const std::int64_t groups = p_.groups();
    gemm_device::ExactArgs e{};
    gemm_device::TensorArgs<float>& product = e.product;
    product.c = static_cast<float*>(c.data);
    product.c_row = c.row, product.c_column = c.column, product.c_batch = rows();
    product.m = static_cast<int>(windows.rows), product.n = static_cast<int>(rows());
    product.k = static_cast<int>(windows.pitch);
    product.walk.batches = static_cast<int>(groups);
    product.a_batches = product.b_batches = 1;
    e.a_exponents = windows.exponents, e.b_exponents = weights.exponents;
    e.waiting = part<std::int64_t>(layout_.waiting);
    const auto planes = [&](const Planes& x) {
      return gemm_device::TensorOperand{x.out, x.rows,     x.pitch,         x.pitch,
                                        1,     3 * groups, x.rows * x.pitch};
    };
    return gemm_device::launch_digits(native(stream_), gemm_device::processors_of(stream_), 144,
                                      planes(windows), planes(weights), e);
  }

  const Stream& stream_;
  const ConvProblem& p_;
  gemm_device::Instruction by_;
  const View &image_, &weight_, &out_;
  ImageLayout layout_;
  ExactKeys keys_;
  char* data_;
  Magnitudes images_, weights_;
  const Operands& operands_;
};

}  // namespace
}  // namespace conv_device

Result<void> conv_tensor_cores(const Stream& stream, Workspace workspace, const ConvProblem& p,
                               const Operands& operands, gemm_device::Instruction by) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  return conv_device::ImageProducts(stream, workspace, p, operands, by).run();
}

}  // namespace planck
