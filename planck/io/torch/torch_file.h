// PyTorch's checkpoints (.pt, .pth, .bin): a ZIP archive of one pickle and the storages it names.
//
// Promise: nothing in the file is executed (pickle.h). Accepted are files whose tensors lie inside
// their storages, whatever their strides; everything else is one ErrorCode::io that names the
// tensor, the rule and both values. Files from before PyTorch 1.6, which are no archives, are
// refused with a way out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "planck/io/checkpoint/encoding.h"
#include "planck/io/torch/pickle.h"

namespace planck {

struct TorchTensor {
  std::string name;
  const TensorEncoding* type = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements; empty: row-major
  std::uint64_t begin = 0;            // of the first element, in the file
};
struct TorchCheckpoint {
  std::vector<TorchTensor> tensors;
  LeftOut left_out;  // what else the dictionary holds
};

[[nodiscard]] Result<TorchCheckpoint> parse_torch(std::span<const std::byte> file);

}  // namespace planck
