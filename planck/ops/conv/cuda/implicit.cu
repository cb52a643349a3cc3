// cuda:implicit: convolutions of tensor_core whose windows the copy engine brings itself
// (implicit.cuh), tap by tap or, of few filters, patch by patch (patches.cuh). Where channels do
// not lie side by side, they are brought there first; sums go to the output where its channels do,
// else through the workspace.
#include "planck/ops/conv/cuda/chunk_sums.cuh"
#include "planck/ops/conv/cuda/few_filters.cuh"
#include "planck/ops/conv/cuda/implicit.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/lay_filters.cuh"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/cuda/patches.cuh"
#include "planck/ops/conv/cuda/places_out.cuh"
#include "planck/ops/conv/cuda/row_pairs.cuh"
#include "planck/ops/conv/cuda/turn.cuh"

namespace planck {

namespace conv_device {
namespace {

using gemm_device::TensorArgs;
using gemm_device::TensorOperand;
using gemm_device::Warpgroups;

// Weights across k come 64 at a time.
template <class T, bool kMajorKA, bool kMajorKB, class Output, class MapOfB>
Result<void> launch_tiles(const Stream& stream, const CUtensorMap& map_a, const MapOfB& map_of_b,
                          const TensorArgs<Output>& p, const WindowWalk& walk) {
  const auto tiles = choose_windows(p.m, p.n, p.walk.batches, p.k / kBlockChannels<T>,
                                    gemm_device::processors_of(stream), kMajorKB);
  const auto map_b = map_of_b(kMajorKB ? tiles.columns / tiles.cluster : 64);
  if (!map_b) return tl::unexpected(map_b.error());
  if (tiles.columns == 256)
    return launch_windows<Warpgroups<T, 256, 2, kMajorKA, kMajorKB>>(stream, map_a, *map_b, p,
                                                                     walk);
  if (tiles.columns == 128)
    return launch_windows<Warpgroups<T, 128, 2, kMajorKA, kMajorKB>>(stream, map_a, *map_b, p,
                                                                     walk);
  if constexpr (kMajorKB)
    if (tiles.cluster == 2)
      return launch_windows<Warpgroups<T, 64, 2, kMajorKA, kMajorKB>>(stream, map_a, *map_b, p,
                                                                      walk);
  return launch_windows<Warpgroups<T, 64, 1, kMajorKA, kMajorKB>>(stream, map_a, *map_b, p, walk);
}

template <class T>
class ImplicitProducts {
 public:
  ImplicitProducts(const Stream& stream, Workspace workspace, const ConvProblem& p,
                   const Operands& operands)
      : stream_(stream),
        p_(p),
        first_(operands[conv_operand::first]),
        second_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        layout_(p),
        data_(static_cast<char*>(workspace.data)) {}

  Result<void> run() const {
    const auto image = side_by_side<T>(stream_, first_, data_ + layout_.image);
    if (!image) return tl::unexpected(image.error());
    if constexpr (sizeof(T) == 2)  // of TF32 words, tensor cores read none across k
      if (p_.kind == ConvKind::conv2d_weight) return run_weights(*image);
    for (std::int64_t phase = 0; phase < conv_detail::phases_of(p_); ++phase)
      if (auto ok = run_phase(*image, conv_detail::windows_of(p_, phase)); !ok) return ok;
    return {};
  }

 private:
  Result<WindowWalk> walk(const Windows& w) const {
    const auto walk = conv_detail::walk_of(w, kBlockChannels<T>, p_.weight[3]);
    return walk ? Result<WindowWalk>(*walk)
                : fail(ErrorCode::device, "conv2d: the copy engine refuses these windows");
  }

  // Filters as the kernel reads them, along k: where they lie, if they do.
  Result<TensorOperand> filters(const Windows& w, const WindowWalk& walk) const {
    const std::int64_t rows = conv_detail::rows_of(p_), depth = walk.depth();
    if (const auto there = filters_along_k<T>(p_, second_, walk)) return *there;
    auto* const room = reinterpret_cast<Bits<T>*>(data_ + layout_.filters);
    const WeightOperand weight{Tensor4(second_), p_.filters(), p_.kind == ConvKind::conv2d};
    if (auto ok = lay_filters(stream_, w, walk, weight, rows, room); !ok)
      return tl::unexpected(ok.error());
    return TensorOperand{room, rows, depth, depth, 1, 1, 0};
  }

  Result<void> run_phase(const PixelImage& image, const Windows& w) const {
    if (w.places() == 0) return {};
    if (w.depth() == 0) return put<Bits<T>>(stream_, w, out_, nullptr, 0, w.places());
    const auto along = walk(w);
    if (!along) return tl::unexpected(along.error());
    if constexpr (sizeof(T) == 2) {
      const auto ran = conv_detail::rows_of(p_) <= 64 ? run_patches<64>(image, w, *along)
                                                      : run_patches<128>(image, w, *along);
      if (!ran) return tl::unexpected(ran.error());
      if (*ran) return {};
    }
    const auto map_a = window_map<T>(*along, image, gemm_device::kTileRows);
    if (!map_a) return tl::unexpected(map_a.error());
    const auto step = side_by_side_places(w, out_);
    TensorArgs<T> args{};
    args.c = step ? static_cast<T*>(out_.data) : sums();
    args.c_row = step.value_or(conv_detail::rows_of(p_)), args.c_column = 1;
    args.m = static_cast<int>(w.places()), args.n = static_cast<int>(conv_detail::rows_of(p_));
    args.k = static_cast<int>(along->depth());
    args.c_packs = gemm_device::packs_rows(args);
    args.walk.batches = 1;
    const auto run = [&](auto major_kb, const TensorOperand& b) {
      return launch_tiles<T, true, decltype(major_kb)::value>(
          stream_, *map_a, [&](int box) { return gemm_device::tensor_map<T>(b, box); }, args,
          *along);
    };
    Result<void> ok;
    if (const auto across = filters_across_k<T>(p_, second_); sizeof(T) == 2 && across) {
      if constexpr (sizeof(T) == 2) ok = run(std::false_type(), *across);
    } else {
      const auto b = filters(w, *along);
      if (!b) return tl::unexpected(b.error());
      ok = run(std::true_type(), *b);
    }
    if (!ok || step) return ok;
    return put_sums(w);
  }

  // Of few filters, patch by patch. False where that is not faster.
  template <int kColumns>
  Result<bool> run_patches(const PixelImage& image, const Windows& w,
                           const WindowWalk& along) const {
    using W = Patches<T, kColumns>;
    const std::int64_t rows = conv_detail::rows_of(p_), chunk = 16 / std::int64_t{sizeof(T)};
    auto patches = patches_of<W, T>(w, along, gemm_device::processors_of(stream_));
    if (!patches || rows > kColumns || rows % chunk != 0) return false;
    const Strides& s = out_.strides;
    patches->filters = static_cast<int>(rows);
    patches->out =
        static_cast<T*>(out_.data) + w.down.first_place * s[2] + w.across.first_place * s[3];
    patches->image = s[0], patches->row = s[2] * w.down.place_step;
    patches->place = s[3] * w.across.place_step;
    const bool direct = s[1] == 1 && s[0] % chunk == 0 && s[2] % chunk == 0 && s[3] % chunk == 0 &&
                        reinterpret_cast<std::uintptr_t>(out_.data) % 16 == 0;
    if (!direct) {
      patches->out = sums(), patches->place = rows;
      patches->row = rows * w.across.places, patches->image = rows * w.in_image();
    }
    const auto b = filters(w, along);
    if (!b) return tl::unexpected(b.error());
    if (auto ok = launch_patches<W>(stream_, along, image, *b, *patches); !ok)
      return tl::unexpected(ok.error());
    if (direct) return true;
    if (auto ok = put_sums(w); !ok) return tl::unexpected(ok.error());
    return true;
  }

  T* sums() const { return reinterpret_cast<T*>(data_ + layout_.sums); }
  // From [place][channel] to where they belong.
  Result<void> put_sums(const Windows& w) const {
    if (conv_detail::phases_of(p_) == 1 && turns_back<T>(out_))
      return turn_back<T>(stream_, sums(), out_);
    return put(stream_, w, out_, reinterpret_cast<const Bits<T>*>(sums()), 0, w.places());
  }

  Result<void> run_weights(const PixelImage& x) const {
    const Windows w = conv_detail::windows_of(p_, 0);
    auto along = walk(w);
    if (!along) return tl::unexpected(along.error());
    const auto dy = side_by_side<T>(stream_, second_, data_ + layout_.slopes, true);
    if (!dy) return tl::unexpected(dy.error());
    const conv_detail::Chunks chunks = conv_detail::chunks_of(p_);
    along->chunk_places = static_cast<int>(chunks.length);
    const TensorOperand a{dy->data, p_.filters(), w.places(), 1, dy->strides[2], 1, 0};
    const auto map_a = gemm_device::tensor_map<T>(a, gemm_device::kTileRows);
    if (!map_a) return tl::unexpected(map_a.error());
    const auto map_of_b = [&](int pixels) { return window_map<T>(*along, x, pixels); };
    const auto arguments = [&]<class Output>(Output* to, std::int64_t row) {
      TensorArgs<Output> args{};
      args.m = static_cast<int>(p_.filters()), args.n = static_cast<int>(along->depth());
      args.k = static_cast<int>(chunks.length);
      args.c = to, args.c_row = row, args.c_column = 1;
      args.c_batch = std::int64_t{args.m} * args.n;
      args.c_packs = gemm_device::packs_rows(args);
      args.walk.batches = static_cast<int>(chunks.count);
      return args;
    };
    if (const auto row = row_as_summed(*along);
        row && chunks.count == 1 && p_.filters() > FewFilters::kFilters)
      return launch_tiles<T, false, false>(stream_, *map_a, map_of_b,
                                           arguments(static_cast<T*>(out_.data), *row), *along);
    const TensorArgs<float> args =
        arguments(reinterpret_cast<float*>(data_ + layout_.sums), along->depth());
    Result<void> ok;
    if (const auto pairs = row_pairs_of(*along, p_.filters())) {
      ok = launch_row_pairs<T>(stream_, *along, *pairs, *dy, x, chunks.count, p_.filters(), args.c);
    } else if (p_.filters() <= FewFilters::kFilters) {
      const auto map_b = map_of_b(FewFilters::kPlaces);
      if (!map_b) return tl::unexpected(map_b.error());
      ok = launch_few_filters<T>(stream_, *map_a, *map_b, *along, chunks.count, p_.filters(),
                                 args.c);
    } else {
      ok = launch_tiles<T, false, false>(stream_, *map_a, map_of_b, args, *along);
    }
    if (!ok) return ok;
    const std::int64_t columns = p_.channels() * p_.taps();
    const ChunkSums sums{w,
                         Tensor4(first_),
                         Tensor4(second_),
                         Tensor4(out_),
                         p_.filters(),
                         columns,
                         p_.filters(),
                         chunks.count,
                         args.n,
                         std::int64_t{along->blocks} * along->block,
                         args.c_batch};
    return launch_add_chunks<T>(stream_, sums, args.c);
  }

  // From filter to filter of dweight, where (tap, channel) lie as their sums do: a single chunk's
  // go there at once.
  std::optional<std::int64_t> row_as_summed(const WindowWalk& along) const {
    const Strides& s = out_.strides;
    const std::int64_t channels = p_.channels(), across = p_.weight[3];
    const bool there = s[1] == 1 && channels == std::int64_t{along.blocks} * along.block &&
                       (across == 1 || s[3] == channels) &&
                       (p_.weight[2] == 1 || s[2] == across * channels);
    return there ? std::optional(s[0]) : std::nullopt;
  }

  const Stream& stream_;
  const ConvProblem& p_;
  const View &first_, &second_, &out_;
  ImplicitLayout layout_;
  char* data_;
};

}  // namespace
}  // namespace conv_device

Result<void> conv_implicit(const Stream& stream, Workspace workspace, const ConvProblem& p,
                           const Operands& operands) {
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  using conv_device::ImplicitProducts;
  if (p.element_dtype == Dtype::bf16)
    return ImplicitProducts<bf16>(stream, workspace, p, operands).run();
  if (p.element_dtype == Dtype::f16)
    return ImplicitProducts<f16>(stream, workspace, p, operands).run();
  return ImplicitProducts<float>(stream, workspace, p, operands).run();
}

}  // namespace planck
