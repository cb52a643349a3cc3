#include <cuda_runtime.h>

#include <set>

#include "planck/core/cuda/runtime.h"

namespace planck::cuda {

namespace {

Result<void> ok_or(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // clears the sticky copy
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  return fail(code, std::string(what) + ": " + cudaGetErrorString(status));
}

// Runs `call` with the device current, and puts the caller's device back.
template <class F>
cudaError_t on(int ordinal, F&& call) {
  int before = 0;
  if (cudaError_t status = cudaGetDevice(&before); status != cudaSuccess) return status;
  if (before != ordinal)
    if (cudaError_t status = cudaSetDevice(ordinal); status != cudaSuccess) return status;
  const cudaError_t status = call();
  if (before != ordinal) (void)cudaSetDevice(before);
  return status;
}

// While this thread records a stream, memory is refused unless it says that it knows.
class MayAllocate {
 public:
  MayAllocate() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  MayAllocate(const MayAllocate&) = delete;
  ~MayAllocate() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

cudaStream_t as_stream(void* s) { return static_cast<cudaStream_t>(s); }

Result<int> attribute(int ordinal, cudaDeviceAttr which) {
  int value = 0;
  if (auto r = ok_or(cudaDeviceGetAttribute(&value, which, ordinal), "cuda device attribute"); !r)
    return tl::unexpected(r.error());
  return value;
}

__global__ void spin_kernel(unsigned long long cycles) {
  const long long begin = clock64();
  while (static_cast<unsigned long long>(clock64() - begin) < cycles) {
  }
}

}  // namespace

bool built() { return true; }
std::string_view architectures() { return PLANCK_BUILT_ARCHITECTURES; }

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

Result<std::string> device_name(int ordinal) {
  cudaDeviceProp properties;
  if (auto r = ok_or(cudaGetDeviceProperties(&properties, ordinal), "cuda device name"); !r)
    return tl::unexpected(r.error());
  return std::string(properties.name);
}

Result<int> compute_capability(int ordinal) {
  auto major = attribute(ordinal, cudaDevAttrComputeCapabilityMajor);
  auto minor = attribute(ordinal, cudaDevAttrComputeCapabilityMinor);
  if (!major || !minor) return tl::unexpected(major ? minor.error() : major.error());
  return *major * 10 + *minor;
}

Result<int> make_current(int ordinal) {
  int before = 0;
  if (auto r = ok_or(cudaGetDevice(&before), "cuda device"); !r) return tl::unexpected(r.error());
  if (auto r = ok_or(cudaSetDevice(ordinal), "cuda device"); !r) return tl::unexpected(r.error());
  return before;
}

Result<void*> allocate(int ordinal, std::size_t bytes) {
  void* pointer = nullptr;
  const MayAllocate may;
  if (auto r = ok_or(on(ordinal, [&] { return cudaMalloc(&pointer, bytes); }), "cuda allocate"); !r)
    return tl::unexpected(r.error());
  return pointer;
}

void release(int ordinal, void* pointer) {
  const MayAllocate may;
  (void)on(ordinal, [&] { return cudaFree(pointer); });
}

Result<void*> allocate_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  if (auto r = ok_or(cudaMallocHost(&pointer, bytes), "cuda allocate pinned"); !r)
    return tl::unexpected(r.error());
  return pointer;
}
void release_pinned(void* pointer) { (void)cudaFreeHost(pointer); }

Result<void*> create_stream(int ordinal) {
  cudaStream_t stream = nullptr;
  if (auto r = ok_or(
          on(ordinal, [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }),
          "cuda create stream");
      !r)
    return tl::unexpected(r.error());
  return static_cast<void*>(stream);
}

void destroy_stream(int ordinal, void* stream) {
  (void)on(ordinal, [&] { return cudaStreamDestroy(as_stream(stream)); });
}

Result<void> synchronize(int ordinal, void* stream) {
  return ok_or(on(ordinal, [&] { return cudaStreamSynchronize(as_stream(stream)); }),
               "cuda synchronize");
}

Result<void> follow(int ordinal, void* stream, void* other) {
  if (stream == other) return {};
  return ok_or(on(ordinal,
                  [&] {
                    cudaEvent_t mark = nullptr;
                    cudaError_t status = cudaEventCreateWithFlags(&mark, cudaEventDisableTiming);
                    if (status != cudaSuccess) return status;
                    status = cudaEventRecord(mark, as_stream(other));
                    if (status == cudaSuccess)
                      status = cudaStreamWaitEvent(as_stream(stream), mark, 0);
                    (void)cudaEventDestroy(mark);  // freed when it has been reached
                    return status;
                  }),
               "cuda follow");
}

namespace {
Result<void> copy(int ordinal, void* stream, void* to, const void* from, std::size_t bytes,
                  cudaMemcpyKind kind) {
  if (bytes == 0) return {};
  return ok_or(
      on(ordinal, [&] { return cudaMemcpyAsync(to, from, bytes, kind, as_stream(stream)); }),
      "cuda copy");
}
}  // namespace

Result<void> copy_to_device(int ordinal, void* stream, void* to, const void* from,
                            std::size_t bytes) {
  return copy(ordinal, stream, to, from, bytes, cudaMemcpyHostToDevice);
}
Result<void> copy_to_host(int ordinal, void* stream, void* to, const void* from,
                          std::size_t bytes) {
  return copy(ordinal, stream, to, from, bytes, cudaMemcpyDeviceToHost);
}
Result<void> copy_on_device(int ordinal, void* stream, void* to, const void* from,
                            std::size_t bytes) {
  return copy(ordinal, stream, to, from, bytes, cudaMemcpyDeviceToDevice);
}

Result<void> fill(int ordinal, void* stream, void* to, std::uint8_t value, std::size_t bytes) {
  return ok_or(on(ordinal, [&] { return cudaMemsetAsync(to, value, bytes, as_stream(stream)); }),
               "cuda fill");
}

Result<void> begin_capture(int ordinal, void* stream) {
  return ok_or(on(ordinal,
                  [&] {
                    return cudaStreamBeginCapture(as_stream(stream),
                                                  cudaStreamCaptureModeThreadLocal);
                  }),
               "cuda begin capture");
}

namespace {

Result<void*> instantiated(int ordinal, cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  auto r = ok_or(on(ordinal, [&] { return cudaGraphInstantiate(&executable, graph, 0); }),
                 "cuda instantiate graph");
  if (!r) return tl::unexpected(r.error());
  return static_cast<void*>(executable);
}

// What a node waits for, at most so many. An edge of a chain (loops/cuda/chain.cuh) says that its
// launch is set up early: who does not ask for that is refused.
cudaError_t dependencies(cudaGraphNode_t node, std::vector<cudaGraphNode_t>& found,
                         std::size_t most) {
  found.resize(most);
#if CUDART_VERSION >= 12030
  std::vector<cudaGraphEdgeData> edges(most);
#endif
#if CUDART_VERSION >= 13000
  const auto e = cudaGraphNodeGetDependencies(node, found.data(), edges.data(), &most);
#elif CUDART_VERSION >= 12030
  const auto e = cudaGraphNodeGetDependencies_v2(node, found.data(), edges.data(), &most);
#else
  const auto e = cudaGraphNodeGetDependencies(node, found.data(), &most);
#endif
  found.resize(e == cudaSuccess ? most : 0);
  return e;
}
// These nodes of so many, and all they wait for.
cudaError_t add_ancestors(std::vector<cudaGraphNode_t> open, std::size_t count,
                          std::set<cudaGraphNode_t>& all) {
  std::vector<cudaGraphNode_t> before;
  while (!open.empty()) {
    const cudaGraphNode_t node = open.back();
    open.pop_back();
    if (!all.insert(node).second) continue;
    if (auto e = dependencies(node, before, count); e != cudaSuccess) return e;
    open.insert(open.end(), before.begin(), before.end());
  }
  return cudaSuccess;
}
// Takes `once` and what it waits for out of a graph, into another.
cudaError_t take_out(cudaGraph_t graph, const std::vector<void*>& once, cudaGraph_t* taken) {
  std::vector<cudaGraphNode_t> last;
  for (void* node : once) last.push_back(static_cast<cudaGraphNode_t>(node));
  std::set<cudaGraphNode_t> out;
  std::size_t count = 0;
  if (auto e = cudaGraphGetNodes(graph, nullptr, &count); e != cudaSuccess) return e;
  if (auto e = add_ancestors(std::move(last), count, out); e != cudaSuccess) return e;
  if (auto e = cudaGraphClone(taken, graph); e != cudaSuccess) return e;
  std::vector<cudaGraphNode_t> nodes(count);
  if (auto e = cudaGraphGetNodes(graph, nodes.data(), &count); e != cudaSuccess) return e;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNode_t unwanted = node;
    if (!out.contains(node))
      if (auto e = cudaGraphNodeFindInClone(&unwanted, node, *taken); e != cudaSuccess) return e;
    if (auto e = cudaGraphDestroyNode(unwanted); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

}  // namespace

Result<void*> end_capture(int ordinal, void* stream) {
  cudaGraph_t graph = nullptr;
  if (auto r = ok_or(on(ordinal, [&] { return cudaStreamEndCapture(as_stream(stream), &graph); }),
                     "cuda end capture");
      !r)
    return tl::unexpected(r.error());
  auto executable = instantiated(ordinal, graph);
  (void)cudaGraphDestroy(graph);
  return executable;
}

Result<Captured> end_capture(int ordinal, void* stream, const std::vector<void*>& once) {
  cudaGraph_t graph = nullptr, taken = nullptr;
  auto r = ok_or(on(ordinal, [&] { return cudaStreamEndCapture(as_stream(stream), &graph); }),
                 "cuda end capture")
               .and_then([&] {
                 return ok_or(on(ordinal, [&] { return take_out(graph, once, &taken); }),
                              "cuda split graph");
               });
  Captured both{};
  if (r) {
    const auto first = instantiated(ordinal, taken), rest = instantiated(ordinal, graph);
    if (first) both.once = *first;
    if (rest) both.rest = *rest;
    if (!first || !rest) {
      if (first) destroy_graph(both.once);
      if (rest) destroy_graph(both.rest);
      r = tl::unexpected(first ? rest.error() : first.error());
    }
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (taken != nullptr) (void)cudaGraphDestroy(taken);
  if (!r) return tl::unexpected(r.error());
  return both;
}

Result<void> replay(int ordinal, void* stream, void* graph) {
  return ok_or(
      on(ordinal,
         [&] { return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), as_stream(stream)); }),
      "cuda replay graph");
}

Result<std::vector<void*>> capture_front(int ordinal, void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  const auto ask = [&] {
    cudaStream_t s = as_stream(stream);
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData* edges = nullptr;
    return cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &nodes, &edges, &count);
#else
    return cudaStreamGetCaptureInfo_v2(s, &status, nullptr, nullptr, &nodes, &count);
#endif
  };
  if (auto r = ok_or(on(ordinal, ask), "cuda capture info"); !r) return tl::unexpected(r.error());
  return std::vector<void*>(nodes, nodes + count);
}

Result<void> set_capture_front(int ordinal, void* stream, std::vector<void*> launches) {
  std::vector<cudaGraphNode_t> nodes;
  for (void* launch : launches) nodes.push_back(static_cast<cudaGraphNode_t>(launch));
  return ok_or(on(ordinal,
                  [&] {
                    cudaStream_t s = as_stream(stream);
#if CUDART_VERSION >= 13000
                    return cudaStreamUpdateCaptureDependencies(
                        s, nodes.data(), nullptr, nodes.size(), cudaStreamSetCaptureDependencies);
#else
                    return cudaStreamUpdateCaptureDependencies(
                        s, nodes.data(), nodes.size(), cudaStreamSetCaptureDependencies);
#endif
                  }),
               "cuda capture front");
}

void destroy_graph(void* graph) { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

Result<void*> create_event(int ordinal) {
  cudaEvent_t event = nullptr;
  if (auto r = ok_or(on(ordinal, [&] { return cudaEventCreate(&event); }), "cuda create event"); !r)
    return tl::unexpected(r.error());
  return static_cast<void*>(event);
}

void destroy_event(void* event) { (void)cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

Result<void> record(int ordinal, void* stream, void* event) {
  return ok_or(
      on(ordinal,
         [&] { return cudaEventRecord(static_cast<cudaEvent_t>(event), as_stream(stream)); }),
      "cuda record event");
}

Result<void> wait(void* event) {
  return ok_or(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cuda wait for event");
}
bool reached(void* event) {
  const bool done = cudaEventQuery(static_cast<cudaEvent_t>(event)) == cudaSuccess;
  if (!done) (void)cudaGetLastError();
  return done;
}

Result<double> seconds_between(void* begin, void* end) {
  float milliseconds = 0;
  if (auto r = ok_or(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin),
                                          static_cast<cudaEvent_t>(end)),
                     "cuda elapsed time");
      !r)
    return tl::unexpected(r.error());
  return static_cast<double>(milliseconds) * 1e-3;
}

Result<void> spin(int ordinal, void* stream, std::uint64_t cycles) {
  return ok_or(on(ordinal,
                  [&] {
                    spin_kernel<<<1, 1, 0, as_stream(stream)>>>(cycles);
                    return cudaGetLastError();
                  }),
               "cuda spin");
}

}  // namespace planck::cuda
