// libFuzzer target: any bytes as a safetensors file. The parser must answer without a fault of
// memory or arithmetic, and what it accepts must hold what its header promises; what the writer
// makes of it must read back the same.
#include <string>

#include "planck/io/safetensors_header.h"
#include "tests/fuzz/hold.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  auto header = Memory::held(size, [&] { return planck::parse_header(file); });
  if (!header) {
    hold_error(header.error());
    return 0;
  }
  std::uint64_t at = 0;
  for (const auto& e : header->entries) {
    hold(e.begin == at && e.end >= e.begin, "ranges follow one another");
    const auto need = planck::safetensors_bytes(*e.type, e.shape);
    hold(need && *need == e.bytes(), "a range holds its shape");
    hold(planck::in_quotes(e.name).size() < 400, "a name fits in a line");
    at = e.end;
  }
  hold(header->data_begin + at == size, "ranges end with the file");

  auto laid_out = *header;
  auto start = planck::layout_header(laid_out);
  hold(start.has_value(), "what was read can be written");
  hold(start->size() == laid_out.data_begin && start->size() % 8 == 0,
       "data begin at a multiple of 8");
  if (at > 1'000'000) return 0;
  const std::string copy = *start + std::string(at, '\0');
  const auto again = planck::parse_header(std::as_bytes(std::span(copy)));
  hold(again.has_value(), "what was written can be read");
  hold(again->metadata == header->metadata && again->entries.size() == header->entries.size(),
       "nothing is lost");
  for (const auto& e : header->entries) {
    const auto* same = again->find(e.name);
    hold(same != nullptr && same->shape == e.shape && same->type == e.type,
         "tensors read back the same");
  }
  return 0;
}
