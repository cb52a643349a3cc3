// libFuzzer target: any bytes as the index of a checkpoint in shards. Files it names are of its own
// folder.
#include "planck/io/checkpoint/index.h"
#include "tests/fuzz/hold.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = Memory::held(size, [&] {
    return planck::parse_index({reinterpret_cast<const char*>(data), size});
  });
  if (!index) {
    hold_error(index.error());
    return 0;
  }
  hold(!index->files.empty() && index->files.size() <= index->tensors.size(),
       "a file holds a tensor");
  for (const std::string& file : index->files)
    hold(file.find('/') == file.npos && file != "." && file != ".." && !file.empty(),
         "files are of this folder");
  const auto again = planck::parse_index(planck::index_text(index->tensors, 1));
  hold(again && again->tensors == index->tensors, "what was written reads back the same");
  return 0;
}
