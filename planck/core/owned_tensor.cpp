#include "planck/core/owned_tensor.h"

#include <cstring>

#include "planck/core/cuda/runtime.h"

namespace planck {

Result<OwnedTensor> OwnedTensor::empty(const Stream& stream, Dtype dtype, const Shape& shape) {
  if (auto ok = check_shape(shape, "tensor"); !ok) return tl::unexpected(ok.error());
  return allocate(stream, bytes_for(dtype, numel(shape))).map([&](Buffer&& buffer) {
    OwnedTensor t;
    t.buffer_ = std::move(buffer);
    t.dtype_ = dtype;
    t.shape_ = shape;
    return t;
  });
}

Result<OwnedTensor> OwnedTensor::to(const Stream& from, const Stream& destination) const {
  auto copy = empty(destination, dtype_, shape_);
  if (!copy) return copy;
  const bool source_cuda = from.device().kind == DeviceKind::cuda;
  const bool target_cuda = destination.device().kind == DeviceKind::cuda;
  Result<void> done;
  if (source_cuda && target_cuda)
    done =
        cuda::copy_on_device(from.device().ordinal, from.native(), copy->data(), data(), bytes());
  else if (source_cuda)
    done = cuda::copy_to_host(from.device().ordinal, from.native(), copy->data(), data(), bytes());
  else if (target_cuda)
    done = cuda::copy_to_device(destination.device().ordinal, destination.native(), copy->data(),
                                data(), bytes());
  else if (bytes() > 0)
    std::memcpy(copy->data(), data(), bytes());
  if (done && source_cuda) done = from.synchronize();
  if (done && target_cuda) done = destination.synchronize();
  if (!done) return tl::unexpected(done.error());
  return copy;
}

}  // namespace planck
