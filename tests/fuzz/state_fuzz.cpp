// libFuzzer target: any bytes as the file of a state, and its metadata as schemes of quantized
// tensors. What is accepted has the bytes of its shapes, and what the writers make of it reads back
// the same.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "planck/nn/state_file.h"
#include "planck/ops/quantize/quantize.format.h"
#include "tests/fuzz/hold.h"

namespace {

// A file in memory, as the readers want a path.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("state", 0)), path_("/proc/self/fd/" + std::to_string(file_)) {}
  void hold_bytes(const std::uint8_t* data, std::size_t size) {
    // Cut after it is written: its page stays.
    hold(pwrite(file_, data, size, 0) == static_cast<ssize_t>(size) &&
             ftruncate(file_, static_cast<off_t>(size)) == 0,
         "memory takes a file");
  }
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

void scheme(const std::string& text) {
  const auto found = Memory::held(text.size(), [&] { return planck::parse_stored_scheme(text); });
  if (!found) return hold_error(found.error());
  hold(found->range.lowest <= found->range.highest, "a range holds a number");
  hold(found->scheme != "per_channel" || found->axis < found->original_shape.rank(),
       "channels are of an axis");
  const auto again = planck::parse_stored_scheme(planck::scheme_text(*found));
  hold(again && again->scheme == found->scheme && again->dtype == found->dtype &&
           again->original_shape == found->original_shape && again->axis == found->axis &&
           again->symmetric == found->symmetric,
       "what was written reads back the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  scheme({reinterpret_cast<const char*>(data), size});
  static MemoryFile file;
  file.hold_bytes(data, size);
  const auto saved = Memory::held(size, [&] { return planck::nn::read_state(file.path()); });
  if (!saved) {
    hold_error(saved.error());
    return 0;
  }
  for (const auto& [name, e] : saved->state)
    hold(e.bytes.size() == planck::bytes_for(e.dtype, planck::numel(e.shape)),
         "an entry has the bytes of its shape");
  hold(planck::nn::bytes_of(saved->state) <= size, "a state is no larger than its file");
  for (const auto& [key, value] : saved->metadata) scheme(value);
  return 0;
}
