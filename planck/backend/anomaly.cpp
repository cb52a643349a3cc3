#include "planck/backend/anomaly.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck {

namespace {

bool is_nan_at(const std::byte* element, Dtype dtype) {
  return visit_float(dtype, [&]<class T>(std::type_identity<T>) {
    T value;
    std::memcpy(&value, element, sizeof(T));
    return std::isnan(static_cast<double>(value));
  });
}

// The bytes that a view touches, on the host.
std::vector<std::byte> bytes_of(const View& view, const Stream& stream) {
  const ByteRange range = byte_range(view);
  std::vector<std::byte> bytes(static_cast<std::size_t>(range.end - range.begin));
  if (stream.device().kind == DeviceKind::cpu) {
    std::copy(range.begin, range.end, bytes.begin());
  } else {
    value_or_throw(cuda::copy_to_host(stream.device().ordinal, stream.native(), bytes.data(),
                                      range.begin, bytes.size()));
    value_or_throw(stream.synchronize());
  }
  return bytes;
}

// Where the first NaN is, row-major.
std::optional<Shape> first_nan(const View& view, const Stream& stream) {
  if (!view.present || !is_float(view.dtype) || numel(view.shape) == 0) return std::nullopt;
  const auto bytes = bytes_of(view, stream);
  const auto element = static_cast<std::int64_t>(storage_bytes(view.dtype));
  const std::byte* origin =
      bytes.data() + (static_cast<const std::byte*>(view.data) - byte_range(view).begin);
  Shape at = Shape::filled(view.shape.rank(), 0);
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < at.rank(); ++d) offset += at[d] * view.strides[d];
    if (is_nan_at(origin + offset * element, view.dtype)) return at;
    int d = at.rank() - 1;
    while (d >= 0 && ++at[d] == view.shape[d]) at[d--] = 0;
    if (d < 0) return std::nullopt;
  }
}

}  // namespace

void Anomaly::begin(const RunningOp& op) noexcept {
  inputs_with_nan_ = -1;
  try {
    for (std::size_t i = 0; i < op.inputs.size() && inputs_with_nan_ < 0; ++i)
      if (first_nan(op.inputs[i], op.stream)) inputs_with_nan_ = static_cast<std::ptrdiff_t>(i);
  } catch (...) {  // no memory to look with: said by what comes next
  }
}

void Anomaly::end(const RunningOp& op) {
  for (const View& out : op.outputs) {
    const auto at = first_nan(out, op.stream);
    if (!at) continue;
    const std::string where =
        op.gradient_of.empty() ? "forward" : "the gradient of " + std::string(op.gradient_of);
    if (inputs_with_nan_ >= 0)
      refuse(
          ErrorCode::not_a_number,
          "{}: the result {} of shape {} has a NaN at {} ({}), which came in with input {}: no op "
          "that was watched made it",
          {op.name, out.dtype, out.shape, *at, where, static_cast<std::int64_t>(inputs_with_nan_)});
    refuse(ErrorCode::not_a_number,
           "{}: made the first NaN, at {} of its {} result of shape {} ({})",
           {op.name, *at, out.dtype, out.shape, where});
  }
}

}  // namespace planck
