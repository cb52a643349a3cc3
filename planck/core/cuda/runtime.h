// The little of the CUDA runtime that host code needs, without a CUDA header.
//
// In a build without CUDA every call answers with ErrorCode::device and device_count() is 0. A
// missing driver, a driver that is too old and a machine without a GPU all count as no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planck/core/result.h"

namespace planck::cuda {

bool built();  // whether this build has CUDA kernels
// What its kernels were compiled for, as CMake names it: "90a-real", "80-virtual,90a-real".
std::string_view architectures();
int device_count();
Result<std::string> device_name(int ordinal);
Result<int> compute_capability(int ordinal);  // 90 for 9.0

// Makes a device the calling thread's own, for libraries that ask for it; gives the one before.
Result<int> make_current(int ordinal);

Result<void*> allocate(int ordinal, std::size_t bytes);
void release(int ordinal, void* pointer);

// Memory of the host that a GPU copies from and to by itself, while the host goes on.
Result<void*> allocate_pinned(std::size_t bytes);
void release_pinned(void* pointer);

Result<void*> create_stream(int ordinal);  // a cudaStream_t
void destroy_stream(int ordinal, void* stream);
Result<void> synchronize(int ordinal, void* stream);
// What `stream` is given from now on comes after all that `other` has been given so far.
Result<void> follow(int ordinal, void* stream, void* other);

Result<void> copy_to_device(int ordinal, void* stream, void* to, const void* from,
                            std::size_t bytes);
Result<void> copy_to_host(int ordinal, void* stream, void* to, const void* from, std::size_t bytes);
Result<void> copy_on_device(int ordinal, void* stream, void* to, const void* from,
                            std::size_t bytes);
Result<void> fill(int ordinal, void* stream, void* to, std::uint8_t value, std::size_t bytes);

// A recorded sequence of launches. Memory may be allocated and released meanwhile.
Result<void> begin_capture(int ordinal, void* stream);
Result<void*> end_capture(int ordinal, void* stream);  // a cudaGraphExec_t
// In two: the launches `once` and all they wait for, and the rest, none of which waits for them.
struct Captured {
  void *once, *rest;
};
Result<Captured> end_capture(int ordinal, void* stream, const std::vector<void*>& once);
Result<void> replay(int ordinal, void* stream, void* graph);
// What is recorded next runs after these of the launches so far; each is a cudaGraphNode_t.
Result<std::vector<void*>> capture_front(int ordinal, void* stream);
Result<void> set_capture_front(int ordinal, void* stream, std::vector<void*> launches);
void destroy_graph(void* graph);

// Time between two marks on a stream, in seconds; spin() keeps the stream busy so that launches
// queue up behind it.
Result<void*> create_event(int ordinal);
void destroy_event(void* event);
Result<void> record(int ordinal, void* stream, void* event);
bool reached(void* event);       // whether all that was queued before the mark is done
Result<void> wait(void* event);  // until it is
Result<double> seconds_between(void* begin, void* end);
Result<void> spin(int ordinal, void* stream, std::uint64_t cycles);

}  // namespace planck::cuda
