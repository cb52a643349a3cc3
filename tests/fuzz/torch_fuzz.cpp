// libFuzzer target: any bytes as a PyTorch checkpoint and as a bare pickle. Tensors that are
// accepted lie inside the file, every element of them.
#include "planck/io/torch/pickle.h"
#include "planck/io/torch/torch_file.h"
#include "tests/fuzz/hold.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto state = Memory::held(size, [&] { return planck::read_pickle(file); });
  if (!state) hold_error(state.error());
  const auto checkpoint = Memory::held(size, [&] { return planck::parse_torch(file); });
  if (!checkpoint) {
    hold_error(checkpoint.error());
    return 0;
  }
  for (const auto& t : checkpoint->tensors) {
    const auto bytes = planck::encoded_bytes(*t.type, t.shape);
    hold(bytes.has_value(), "a tensor has a size");
    hold(*bytes <= size, "a tensor is no larger than the file");
    if (*bytes == 0) continue;
    std::uint64_t last = t.begin + *bytes - static_cast<std::uint64_t>(t.type->bytes);
    if (!t.strides.empty()) {
      hold(t.strides.size() == t.shape.size(), "an axis has a stride");
      last = t.begin;
      for (std::size_t d = 0; d < t.shape.size(); ++d)
        last += static_cast<std::uint64_t>((t.shape[d] - 1) * t.strides[d] * t.type->bytes);
    }
    hold(last + static_cast<std::uint64_t>(t.type->bytes) <= size, "a tensor lies in the file");
  }
  return 0;
}
