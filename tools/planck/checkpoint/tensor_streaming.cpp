#include "tools/planck/checkpoint/tensor_streaming.h"

#include <algorithm>
#include <cstring>

namespace planck::cli {

std::span<const std::byte> bytes_of(const View& v) {
  return {static_cast<const std::byte*>(v.data), bytes_for(v.dtype, numel(v.shape))};
}

Result<void> copy_tensor(const SafetensorsFile& in, const SafetensorsEntry& entry,
                         SafetensorsWriter& writer) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  auto rest = in.bytes(entry);
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(kPiece, rest.size()));
    if (auto ok = writer.write(entry.name, piece); !ok) return ok;
    in.forget(piece);
    rest = rest.subspan(piece.size());
  }
  return {};
}

Result<View> view_as(const SafetensorsFile& in, const SafetensorsEntry& entry, Dtype dtype,
                     const Shape& shape, GrowingBuffer& copy) {
  const auto bytes = in.bytes(entry);
  View view{const_cast<std::byte*>(bytes.data()), dtype, shape, row_major(shape), true};
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % storage_bytes(dtype) == 0) return view;
  return copy.reserve(Stream::cpu(), bytes.size()).map([&](void* data) {
    std::memcpy(data, bytes.data(), bytes.size());
    view.data = data;
    return view;
  });
}

Result<View> view_as_is(const SafetensorsFile& in, const SafetensorsEntry& entry,
                        GrowingBuffer& copy) {
  return view_as(in, entry, *entry.type->dtype, Shape(std::span<const std::int64_t>(entry.shape)),
                 copy);
}

std::size_t operand_index(const AnyProblem& problem, std::string_view operand) {
  return static_cast<std::size_t>(problem.info().operand(operand));
}

}  // namespace planck::cli
