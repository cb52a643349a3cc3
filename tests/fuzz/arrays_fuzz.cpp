// libFuzzer target: any bytes as an npy and as an IDX file. The parsers must answer without a fault
// of memory or arithmetic, what they accept must be exactly as long as its shape says, and what the
// writer makes of it must read back the same.
#include <string>

#include "planck/io/idx.h"
#include "planck/io/npy_header.h"
#include "tests/fuzz/hold.h"

namespace {

void npy(std::span<const std::byte> file) {
  const auto header = Memory::held(file.size(), [&] { return planck::parse_npy_header(file); });
  if (!header) return hold_error(header.error());
  const std::uint64_t bytes = planck::bytes_for(header->dtype, planck::numel(header->shape));
  hold(header->data_begin + bytes == file.size(), "the data are all of the rest");
  const auto start = planck::npy_header(header->dtype, header->shape);
  hold(start.has_value() && start->size() % 64 == 0, "what was read can be written");
  if (bytes > 1'000'000) return;
  const std::string copy = *start + std::string(bytes, '\0');
  const auto again = planck::parse_npy_header(std::as_bytes(std::span(copy)));
  hold(again && again->dtype == header->dtype && again->shape == header->shape &&
           !again->fortran_order && again->data_begin == start->size(),
       "what was written reads back the same");
}

void idx(std::span<const std::byte> file) {
  const auto header = Memory::held(file.size(), [&] { return planck::parse_idx_header(file); });
  if (!header) return hold_error(header.error());
  std::uint64_t bytes = 1;
  for (const std::int64_t extent : header->shape) bytes *= static_cast<std::uint64_t>(extent);
  hold(header->data_begin + bytes == file.size(), "the data are all of the rest");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  npy(file);
  idx(file);
  return 0;
}
