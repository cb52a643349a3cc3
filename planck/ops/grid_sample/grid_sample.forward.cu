#include "planck/ops/grid_sample/cuda.layout.h"
#include "planck/ops/grid_sample/forward.cuh"
#include "planck/ops/grid_sample/grid_sample.cuda.h"

namespace planck {

namespace {

namespace sd = sample_device;

// Blocks of a kernel that walks over its work.
constexpr std::int64_t kWalkers = 132 * 8;

template <class T, class I>
Result<void> direct(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                    const std::int32_t* scattered) {
  using F = sample_operand::Forward;
  using C = sd::Compute<T>;
  sd::ForwardCall<T, I> a = {sd::image_of<const T, I>(o[F::input]),
                             sd::grid_of<const T>(o[F::grid]),
                             sd::image_of<T, I>(o[F::output]),
                             sd::frame_of<C, I>(p),
                             5,
                             Divisor(),
                             scattered,
                             false};
  const std::int64_t width = a.frame.out[2], rows = a.frame.out[0] * a.frame.out[1];
  while (a.log_width > 0 && (std::int64_t{1} << (a.log_width - 1)) >= width) --a.log_width;
  const std::int64_t across = ceil_div(width, std::int64_t{1} << a.log_width);
  const std::int64_t tiles = across * ceil_div(rows, sd::kThreads >> a.log_width);
  if (tiles >= kDivisorLimit)
    return fail(ErrorCode::unsupported,
                "grid_sample: " + std::to_string(tiles) + " tiles of 256 points exceed 2^31");
  a.across = Divisor(static_cast<std::uint32_t>(across));
  return sd::visit_mode(p, [&](auto mode, auto dims) {
    constexpr SampleMode kMode = decltype(mode)::value;
    constexpr int kDims = decltype(dims)::value;
    constexpr bool kLight =
        kMode != SampleMode::bicubic && kDims == 2 && sizeof(C) == 4 && sizeof(I) == 4;
    constexpr int kChannels = kLight ? 4 : 16;
    return sd::launch_grid(
        stream, "grid_sample", sd::forward_direct < T, kMode, kDims, I, kChannels, kLight ? 8 : 2 >,
        tiles, ceil_div(a.frame.channels, kChannels), a.frame.batch, sd::kThreads, 0, a);
  });
}

template <class T, class I>
Result<void> rows(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                  const sd::Image<const T, I>& input, const std::int32_t* scattered) {
  using F = sample_operand::Forward;
  using C = sd::Compute<T>;
  sd::RowsCall<T, I> a = {input,
                          sd::grid_of<const T>(o[F::grid]),
                          sd::image_of<T, I>(o[F::output]),
                          sd::frame_of<C, I>(p),
                          0,
                          0,
                          scattered,
                          true};
  a.tiles = ceil_div(a.frame.points, sd::kRowPoints);
  a.slabs = ceil_div(a.frame.channels, sd::kSlab);
  const std::int64_t units = a.tiles * a.slabs * a.frame.batch;
  const bool rows_out = has_vector_rows(o[F::output]);
  return sd::launch_grid(stream, "grid_sample rows",
                         rows_out ? sd::forward_rows<T, I, true> : sd::forward_rows<T, I, false>,
                         units < kWalkers ? units : kWalkers, 1, 1, sd::kThreads, 0, a);
}

template <class T, class I>
Result<void> staged(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                    const Operands& o) {
  using F = sample_operand::Forward;
  const SampleGeometry g = p.geometry();
  auto* scattered = static_cast<std::int32_t*>(workspace.data);
  T* copy = reinterpret_cast<T*>(static_cast<std::byte*>(workspace.data) + kWorkspaceAlignment);
  sd::StageCall<T, I> a = {sd::image_of<const T, I>(o[F::input]),
                           copy,
                           g.batch,
                           g.channels,
                           g.pixels(),
                           ceil_div(g.pixels(), sd::kRowPoints),
                           ceil_div(g.channels, sd::kSlab),
                           g.in[2],
                           sd::grid_of<const T>(o[F::grid]),
                           sd::frame_of<sd::Compute<T>, I>(p),
                           scattered};
  const std::int64_t units = a.tiles * a.slabs * g.batch;
  if (auto ok = sd::launch_grid(stream, "grid_sample stage", sd::stage_rows<T, I>,
                                units < kWalkers ? units : kWalkers, 1, 1, sd::kThreads, 0, a);
      !ok)
    return ok;
  const sd::Image<const T, I> input = {copy,
                                       g.pixels() * g.channels,
                                       1,
                                       0,
                                       static_cast<I>(g.in[2] * g.channels),
                                       static_cast<I>(g.channels)};
  if (auto ok = rows<T, I>(stream, p, o, input, scattered); !ok) return ok;
  return direct<T, I>(stream, p, o, scattered);
}

template <class T, class I>
Result<void> forward(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                     const Operands& o) {
  using F = sample_operand::Forward;
  const bool linear = p.mode == SampleMode::bilinear && p.input.rank() == 4;
  const bool many = p.geometry().points() < kDivisorLimit;
  if (linear && many && has_vector_rows(o[F::input]))
    return rows<T, I>(stream, p, o, sd::image_of<const T, I>(o[F::input]), nullptr);
  if (linear && many && staged_forward(p) &&
      p.geometry().pixels() * p.geometry().channels < (std::int64_t{1} << 31))
    return staged<T, I>(stream, workspace, p, o);
  return direct<T, I>(stream, p, o, nullptr);
}

}  // namespace

Result<void> grid_sample_cuda(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                              const Operands& o) {
  using F = sample_operand::Forward;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  if (numel(p.output()) == 0) return {};
  const bool narrow = sd::short_span(o[F::input]) && sd::short_span(o[F::output]);
  return visit_float(p.dtype, [&]<class T>(std::type_identity<T>) {
    return narrow ? forward<T, std::int32_t>(stream, workspace, p, o)
                  : forward<T, std::int64_t>(stream, workspace, p, o);
  });
}

}  // namespace planck
