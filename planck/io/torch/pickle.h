// Python's pickles as PyTorch writes them into checkpoints, read without executing anything.
//
// A pickle is a program. This reader knows the opcodes that numbers, texts, tuples, lists,
// dictionaries and tensors are made of, and a list of names that may be called:
//
//   collections.OrderedDict                          torch.Size
//   torch._utils._rebuild_tensor, _v2, _v3           torch._utils._rebuild_parameter
//   torch.FloatStorage and its siblings              torch.float32 and its siblings
//
// For each of these it knows what the call would give; nothing is looked up, imported or called.
// Any other opcode or name is refused, with what was found and where.
//
// Promise: read_pickle is a pure function of the bytes, takes time and memory linear in their
// number, and gives the tensors of the dictionary or the list at the top, nested ones as
// "outer.inner", those of a list as "outer.0", "outer.1". What is no tensor (a step count, a
// setting) is left out; it is counted, and the first ones are named. A pickle has at most 2^21
// values, 2^26 bytes and 262,144 tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planck/io/checkpoint/encoding.h"

namespace planck {

struct PickledTensor {
  std::string name;
  std::string storage;  // the member data/STORAGE holds its elements
  const TensorEncoding* type = nullptr;
  std::int64_t storage_elements = 0;  // as the pickle says; -1: it does not
  std::int64_t offset = 0;            // elements
  std::vector<std::int64_t> shape, strides;
};

// What is no tensor.
struct LeftOut {
  static constexpr std::size_t kMostNames = 16;
  std::int64_t count = 0;
  std::vector<std::string> names;  // of the first ones
};

struct PickledState {
  std::vector<PickledTensor> tensors;  // in the order of the dictionary
  LeftOut left_out;
};

[[nodiscard]] Result<PickledState> read_pickle(std::span<const std::byte> bytes);

}  // namespace planck
