#include "planck/ops/grid_sample/cuda/boxes.launch.cuh"
#include "planck/ops/grid_sample/cuda/forward.boxes.cuh"
#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/ops/grid_sample/cuda/layout.h"

namespace planck {

namespace {

namespace sd = sample_device;

// Blocks of a kernel that walks over its work.
constexpr std::int64_t kWalkers = 132 * 4;

using F = sample_operand::Forward;

// Any mode and any strides: one thread per point and some channels.
template <class T, class I>
Result<void> direct(const Stream& stream, const GridSampleProblem& p, const Operands& o) {
  using C = sd::Compute<T>;
  sd::ForwardCall<T, I> a = {sd::image_of<const T, I>(o[F::input]),
                             sd::grid_of<const T>(o[F::grid]),
                             sd::image_of<T, I>(o[F::output]),
                             sd::frame_of<C, I>(p),
                             5,
                             Divisor()};
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
    constexpr int kChannels = kLight ? 8 : 16, kBlocks = kLight ? 5 : 2;
    return sd::launch_grid(
        stream, "grid_sample", sd::forward_direct<T, kMode, kDims, I, kChannels, kBlocks>, tiles,
        ceil_div(a.frame.channels, kChannels), a.frame.batch, sd::kThreads, 0, a);
  });
}

template <class T, class I>
sd::RowsCall<T, I> rows_call(const GridSampleProblem& p, const Operands& o,
                             const sd::Image<const T, I>& input) {
  sd::RowsCall<T, I> a = {input,
                          sd::grid_of<const T>(o[F::grid]),
                          sd::image_of<T, I>(o[F::output]),
                          sd::frame_of<sd::Compute<T>, I>(p),
                          0,
                          0};
  a.tiles = ceil_div(a.frame.points, sd::kRowPoints);
  a.slabs = ceil_div(a.frame.channels, sd::kSlab);
  return a;
}

// 2-D bilinear, channels of an element together.
template <class T, class I>
Result<void> rows(const Stream& stream, const GridSampleProblem& p, const Operands& o) {
  const sd::RowsCall<T, I> a = rows_call(p, o, sd::image_of<const T, I>(o[F::input]));
  const std::int64_t units = a.tiles * a.slabs * a.frame.batch;
  return sd::launch_grid(
      stream, "grid_sample rows",
      has_vector_rows(o[F::output]) ? sd::forward_rows<T, I, true> : sd::forward_rows<T, I, false>,
      units < INT32_MAX ? units : INT32_MAX, 1, 1, sd::kThreads, 0, a);
}

constexpr int kPlaneChannels = 8;

// Units of the kernel for dense planes.
std::int64_t plane_units(const SampleGeometry& g) {
  return ceil_div(g.out[2], 32) * ceil_div(g.out[1], 8) * ceil_div(g.channels, kPlaneChannels) *
         g.batch;
}

template <class T>
std::int64_t box_units(const SampleGeometry& g) {
  using B = sd::Box<T>;
  return ceil_div(g.out[2], 32) * ceil_div(g.out[1], B::kPoints) *
         ceil_div(g.channels, B::kBlockChannels) * g.batch;
}

// Whether there is enough work for such large tiles, and room for a list of all units where the
// copy of the input would be.
template <class T>
bool worth_boxes(const View& input, const SampleGeometry& g) {
  const std::int64_t units = box_units<T>(g), room = numel(input.shape) * std::int64_t{sizeof(T)};
  return g.out[2] >= 32 && g.out[1] >= sd::Box<T>::kPoints && g.channels >= 8 &&
         units >= kWalkers && units * 4 <= room;
}

// Dense planes by boxes, then what they leave; or rows, where the grid is scattered.
template <class T, bool kZeros>
Result<void> launch_boxes(const Stream& stream, const SampleGeometry& g, sd::PlanesCall<T> a,
                          const sd::Leftovers& leftovers, const sd::BoxMaps& maps,
                          const sd::RowsCall<T, std::int32_t>& rows) {
  using B = sd::Box<T>;
  const std::int64_t across = ceil_div(g.out[2], 32);
  const std::int64_t tiles = across * ceil_div(g.out[1], B::kPoints);
  const std::int64_t groups = ceil_div(g.channels, B::kBlockChannels);
  a.across = Divisor(static_cast<std::uint32_t>(across));
  a.tiles = Divisor(static_cast<std::uint32_t>(tiles));
  a.groups = Divisor(static_cast<std::uint32_t>(groups));
  if (auto ok = sd::launch_grid(stream, "grid_sample boxes", sd::forward_boxes<T, kZeros>,
                                box_units<T>(g), 1, 1, sd::kThreads, {B::kShared, true}, a, maps,
                                leftovers);
      !ok)
    return ok;
  return sd::launch_grid(stream, "grid_sample rest", sd::forward_rest<T, kZeros>,
                         132 * sd::kRowBlocks, 1, 1, sd::kThreads, {0, true}, a, leftovers, rows);
}

// The same straight from memory.
template <class T, bool kZeros>
Result<void> launch_planes(const Stream& stream, const sd::PlanesCall<T>& a) {
  constexpr int kBlocks = sizeof(T) == 8 ? 3 : 8;
  return sd::launch_grid(stream, "grid_sample planes",
                         sd::forward_planes<T, kZeros, kPlaneChannels, kBlocks>, a.units, 1, 1,
                         sd::kThreads, {0, true, 0}, a);
}

// 2-D bilinear, dense planes; or, where the grid looks scattered, rows of a copy of the input. Both
// are queued, and the device chooses: the bits are the same.
template <class T>
Result<void> planes(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                    const Operands& o) {
  using I = std::int32_t;
  const SampleGeometry g = p.geometry();
  const View &input = o[F::input], &grid = o[F::grid], &output = o[F::output];
  const auto divisor = [](std::int64_t v) { return Divisor(static_cast<std::uint32_t>(v)); };
  const auto frame = sd::frame_of<sd::Compute<T>, I>(p);
  auto* neighbours = static_cast<sd::Neighbours*>(workspace.data);
  const sd::PlanesCall<T> a = {static_cast<const T*>(input.data),
                               static_cast<const T*>(grid.data),
                               static_cast<T*>(output.data),
                               input.strides[0],
                               input.strides[1],
                               grid.strides[0],
                               output.strides[0],
                               output.strides[1],
                               static_cast<I>(input.shape[2] > 1 ? input.strides[2] : 0),
                               static_cast<I>(g.out[2]),
                               static_cast<I>(g.out[1]),
                               static_cast<I>(g.channels),
                               divisor(ceil_div(g.out[2], 32)),
                               divisor(ceil_div(g.out[2], 32) * ceil_div(g.out[1], 8)),
                               divisor(ceil_div(g.channels, kPlaneChannels)),
                               static_cast<std::uint32_t>(plane_units(g)),
                               frame.axis[0],
                               frame.axis[1],
                               neighbours,
                               false};
  T* copy = nullptr;
  if (neighbours != nullptr) {
    copy = reinterpret_cast<T*>(static_cast<std::byte*>(workspace.data) + kWorkspaceAlignment);
    const sd::StageCall<T, I> stage = {sd::image_of<const T, I>(input),
                                       copy,
                                       g.batch,
                                       g.channels,
                                       g.pixels(),
                                       ceil_div(g.pixels(), sd::kRowPoints),
                                       ceil_div(g.channels, sd::kSlab),
                                       g.in[2],
                                       sd::positions_joined(input, false),
                                       neighbours,
                                       false,
                                       sd::grid_of<const T>(grid),
                                       frame};
    const std::int64_t units = stage.tiles * stage.slabs * g.batch;
    if (auto ok =
            sd::launch_grid(stream, "grid_sample stage", sd::stage_rows<T, I>,
                            units < kWalkers ? units : kWalkers, 1, 1, sd::kThreads, 0, stage);
        !ok)
      return ok;
  }
  const bool zeros = p.padding == SamplePadding::zeros;
  const auto straight = [&] {
    return zeros ? launch_planes<T, true>(stream, a) : launch_planes<T, false>(stream, a);
  };
  if (neighbours == nullptr) return straight();
  sd::RowsCall<T, I> r =
      rows_call<T, I>(p, o,
                      {copy, g.pixels() * g.channels, 1, 0, static_cast<I>(g.in[2] * g.channels),
                       static_cast<I>(g.channels)});
  r.neighbours = neighbours;
  if constexpr (sizeof(T) < 8) {
    sd::BoxMaps maps;
    const bool has_boxes = cuda::code_of(stream.device().ordinal) >= 90;  // else they stay empty
    if (has_boxes && worth_boxes<T>(input, g) && sd::map_boxes<sd::Box<T>>(input, maps)) {
      // The list lies where no copy will be made.
      const sd::Leftovers leftovers = {neighbours, reinterpret_cast<std::uint32_t*>(copy)};
      return zeros ? launch_boxes<T, true>(stream, g, a, leftovers, maps, r)
                   : launch_boxes<T, false>(stream, g, a, leftovers, maps, r);
    }
  }
  if (auto ok = straight(); !ok) return ok;
  const std::int64_t units = r.tiles * r.slabs * g.batch, walkers = 132 * sd::kRowBlocks;
  return sd::launch_grid(stream, "grid_sample rows", sd::forward_rows<T, I, false>,
                         units < walkers ? units : walkers, 1, 1, sd::kThreads, {0, true}, r);
}

// Whether an operand of two spatial axes lies in dense rows, one after the other.
bool is_dense(const View& v, bool is_grid) {
  const int last = v.shape.rank() - 1;
  if (!sd::positions_joined(v, is_grid)) return false;
  if (!is_grid) return v.strides[last] == 1 || v.shape[last] == 1;
  return v.strides[last] == 1 && v.strides[last - 1] == 2 && v.strides[0] % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(v.data) % (2 * storage_bytes(v.dtype)) == 0;
}

template <class T>
Result<void> forward(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                     const Operands& o, bool narrow) {
  using I = std::int32_t;
  const SampleGeometry g = p.geometry();
  if (!narrow) return direct<T, std::int64_t>(stream, p, o);
  if (p.mode == SampleMode::bilinear && g.dims == 2 && g.points() < (1 << 30)) {
    if (has_vector_rows(o[F::input])) return rows<T, I>(stream, p, o);
    const View& input = o[F::input];
    if ((input.strides[3] == 1 || input.shape[3] == 1) && g.out[2] >= 16 &&
        is_dense(o[F::grid], true) && is_dense(o[F::output], false) &&
        g.pixels() * g.channels < (std::int64_t{1} << 31) && plane_units(g) < kDivisorLimit)
      return planes<T>(stream, workspace, p, o);
  }
  return direct<T, I>(stream, p, o);
}

// Without workspace no copy is made.
Result<void> launch(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                    const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  if (numel(p.output()) == 0) return {};
  const bool narrow = sd::short_span(o[F::input]) && sd::short_span(o[F::output]);
  return visit_float(p.dtype, [&]<class T>(std::type_identity<T>) {
    return forward<T>(stream, workspace, p, o, narrow);
  });
}

}  // namespace

Result<void> grid_sample_cuda(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                              const Operands& o) {
  return launch(stream, staged_forward(p) ? workspace : Workspace{}, p, o);
}

Result<void> grid_sample_no_copy_cuda(const Stream& stream, Workspace, const GridSampleProblem& p,
                                      const Operands& o) {
  return launch(stream, {}, p, o);
}

}  // namespace planck
