// var and logsumexp down dense columns in one pass, where clusters hold them (panel.cuh).
#include <atomic>

#include "planck/loops/launch.cuh"
#include "planck/ops/reduce/outer_map.cuh"
#include "planck/ops/reduce/panel.cuh"
#include "planck/ops/reduce/reduce_pass.h"

namespace planck {

namespace reduce_device {
namespace {

constexpr int kDevices = 16;

// What a launch of clusters needs, in one place.
struct ClusterLaunch {
  cudaLaunchAttribute cluster = {};
  cudaLaunchConfig_t config = {};

  ClusterLaunch(const Stream& stream, int ranks, int clusters) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(ranks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3(static_cast<unsigned>(ranks * clusters));
    config.blockDim = dim3(kPanelThreads);
    config.dynamicSmemBytes = kPanelRing;
    config.stream = native(stream);
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
};

int ranks_for(std::int64_t length) {
  int ranks = 1;
  while (ranks * kPanelBlockRows < length) ranks *= 2;
  return ranks;
}

// How many clusters run at the same time: 0 where the device has none of this size.
template <class T, bool kVar>
int resident_clusters(const Stream& stream, int ranks) {
  static std::atomic<int> known[kDevices][kPanelMostRanks + 1];  // one more than there are
  const int device = stream.device().ordinal;
  std::atomic<int>* entry = device < kDevices ? &known[device][ranks] : nullptr;
  if (entry != nullptr && *entry != 0) return *entry - 1;
  int count = 0, has = 0;
  const auto kernel = held_columns<T, kVar>;
  ClusterLaunch launch(stream, ranks, 1);
  const bool asked =
      cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, device) == cudaSuccess && has != 0 &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kPanelRing) ==
          cudaSuccess &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
          cudaSuccess &&
      cudaOccupancyMaxActiveClusters(&count, kernel, &launch.config) == cudaSuccess;
  if (!asked) {
    (void)cudaGetLastError();
    count = 0;
  }
  if (entry != nullptr) *entry = count + 1;
  return count;
}

template <class F>
auto visit_held(const ReducePass& pass, const F& f) {
  const auto of_type = [&](auto type) {
    return pass.problem.kind == ReduceKind::var ? f(type, std::true_type{})
                                                : f(type, std::false_type{});
  };
  switch (pass.problem.element_dtype) {
    case Dtype::f32:
      return of_type(std::type_identity<float>{});
    case Dtype::f16:
      return of_type(std::type_identity<f16>{});
    default:
      return of_type(std::type_identity<bf16>{});
  }
}

template <class T, bool kVar>
Result<void> run_panels(const Stream& stream, const ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  PanelArguments<T> a{};
  a.in = static_cast<const T*>(pass.x);
  a.outer_map = outer_map_of(l);
  a.inner = l.inner();
  a.outer = l.groups / a.inner;
  a.length = l.length;
  a.step = l.reduced.stride[0];
  a.tiles = static_cast<int>(ceil_div(a.inner, PanelShared<T>::kColumns));
  a.panels = a.outer * a.tiles;
  a.ranks = ranks_for(l.length);
  a.out = static_cast<T*>(pass.out);
  a.out_map = AxisMap::of(walk_of(l.kept, 1));
  a.finish = rm::make_finish<float>(pass.problem);
  const std::int64_t resident = resident_clusters<T, kVar>(stream, a.ranks);
  const ClusterLaunch launch(stream, a.ranks,
                             static_cast<int>(a.panels < resident ? a.panels : resident));
  return cuda_result(cudaLaunchKernelEx(&launch.config, held_columns<T, kVar>, a),
                     "reduce held columns");
}

}  // namespace

bool holds_columns(const Stream& stream, const ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  if (pass.problem.element_dtype == Dtype::f64 || !l.columns || l.length < kPanelLeastRows ||
      l.length > kPanelMostRows || l.reduced.rank != 1)
    return false;
  return visit_held(pass, [&](auto type, auto var) {
    using T = typename decltype(type)::type;
    const bool aligned = reinterpret_cast<std::uintptr_t>(pass.x) % 16 == 0 &&
                         l.inner() * static_cast<std::int64_t>(sizeof(T)) % 16 == 0 &&
                         outer_map_of(l).aligned(sizeof(T)) &&
                         AxisMap::of(l.reduced).aligned(sizeof(T));
    return aligned && l.inner() < INT32_MAX &&
           resident_clusters<T, decltype(var)::value>(stream, ranks_for(l.length)) > 0;
  });
}

Result<void> held_columns_pass(const Stream& stream, const ReducePass& pass) {
  return visit_held(pass, [&](auto type, auto var) {
    return run_panels<typename decltype(type)::type, decltype(var)::value>(stream, pass);
  });
}

}  // namespace reduce_device
}  // namespace planck
