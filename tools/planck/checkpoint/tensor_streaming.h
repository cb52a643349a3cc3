// Tensors on their way from one checkpoint to another without filling memory.
#pragma once

#include <span>
#include <string_view>

#include "planck/io/safetensors.h"
#include "tools/planck/ops/op_runner.h"

namespace planck::cli {

std::span<const std::byte> bytes_of(const View& v);  // of a row-major view

// Copies a tensor in pieces, and forgets each.
[[nodiscard]] Result<void> copy_tensor(const SafetensorsFile& in, const SafetensorsEntry& entry,
                                       SafetensorsWriter& writer);

// A view of an entry as `dtype` and `shape`, which take as many bytes; copied where the file has it
// misaligned.
[[nodiscard]] Result<View> view_as(const SafetensorsFile& in, const SafetensorsEntry& entry,
                                   Dtype dtype, const Shape& shape, GrowingBuffer& copy);
// The same with its own dtype and shape, which must be ones that ops compute with.
[[nodiscard]] Result<View> view_as_is(const SafetensorsFile& in, const SafetensorsEntry& entry,
                                      GrowingBuffer& copy);

std::size_t operand_index(const AnyProblem& problem, std::string_view operand);

}  // namespace planck::cli
