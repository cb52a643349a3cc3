// A place to run: CPU threads, or a CUDA stream, owned or borrowed. Copies share it.
//
// A stream also says what products of matrices mean on it (product_math.h) where the op does not:
// tensors carry their stream, so gradients and modules follow.
//
// On the CPU, work is done when the call returns. On CUDA, work is queued; synchronize() waits for
// it.
#pragma once

#include <memory>

#include "planck/core/device.h"
#include "planck/core/product_math.h"
#include "planck/core/result.h"

namespace planck {

class Stream {
 public:
  // threads = 0: one for each core this process may use. The number never changes a result.
  static Stream cpu(int threads = 0);
  static Result<Stream> cuda(int ordinal = 0);
  // Around a caller's cudaStream_t, which must outlive the Stream.
  static Stream borrow_cuda(void* cuda_stream, int ordinal = 0);
  static Result<Stream> on(Device device);

  Device device() const { return device_; }
  int threads() const { return threads_; }
  void* native() const { return native_.get(); }  // the cudaStream_t; null on the CPU
  [[nodiscard]] Result<void> synchronize() const;

  // The same place, with another meaning of products; dtypes it does not serve keep their own.
  Stream with_math(ProductMath math) const {
    Stream other = *this;
    other.math_ = math;
    return other;
  }
  ProductMath product_math(Dtype element) const {
    return math_ && serves(*math_, element) ? *math_ : default_product_math(element);
  }

 private:
  Stream(Device device, int threads, std::shared_ptr<void> native)
      : device_(device), threads_(threads), native_(std::move(native)) {}

  Device device_;
  int threads_;
  std::shared_ptr<void> native_;
  std::optional<ProductMath> math_;
};

}  // namespace planck
