// libFuzzer target: any bytes as a GGUF file. What is accepted lies inside the file without
// overlap, and what the writer makes of it reads back the same; blocks decode without a fault.
#include <string>
#include <vector>

#include "planck/io/gguf/gguf_header.h"
#include "tests/fuzz/hold.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  auto header = Memory::held(size, [&] { return planck::parse_gguf(file); });
  if (!header) {
    hold_error(header.error());
    return 0;
  }
  std::uint64_t at = 0;
  for (const auto& t : header->tensors) {
    hold(t.begin >= at, "tensors do not overlap");
    at = t.begin + t.bytes;
    hold(header->data_begin + at <= size, "tensors lie in the file");
    const auto bytes = planck::encoded_bytes(*t.type, t.shape);
    hold(bytes && *bytes == t.bytes, "a tensor has the bytes of its shape");
    if (t.type->decode == nullptr || t.bytes == 0) continue;
    const auto blocks = static_cast<std::int64_t>(t.bytes) / t.type->bytes;
    std::vector<float> values(static_cast<std::size_t>(blocks * t.type->elements));
    t.type->decode(file.data() + header->data_begin + t.begin, blocks, values.data());
  }
  auto written = *header;
  const auto start = planck::layout_gguf(written);
  hold(start.has_value(), "what was read can be written");
  hold(start->size() == written.data_begin && start->size() % written.alignment == 0,
       "data are aligned");
  if (planck::gguf_file_bytes(written) > 1'000'000) return 0;
  const std::string copy =
      *start + std::string(planck::gguf_file_bytes(written) - start->size(), '\0');
  const auto again = planck::parse_gguf(std::as_bytes(std::span(copy)));
  hold(again.has_value(), "what was written can be read");
  hold(again->fields.size() == header->fields.size() &&
           again->tensors.size() == header->tensors.size(),
       "nothing is lost");
  for (std::size_t i = 0; i < header->fields.size(); ++i)
    hold(again->fields[i].value == header->fields[i].value, "fields are carried over");
  return 0;
}
