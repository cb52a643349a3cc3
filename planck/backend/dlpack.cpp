#include "planck/backend/dlpack.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

namespace planck::dlpack {

// The layout of the C interface on 64-bit machines.
static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, shape) == 24);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 &&
              offsetof(ManagedTensorVersioned, tensor) == 32);

namespace {

template <class... A>
[[noreturn]] void refuse_as(ErrorCode code, fmt::format_string<A...> text, A&&... a) {
  raise(code, fmt::format(text, std::forward<A>(a)...));
}

ElementType type_of(Dtype t) {
  const auto width = static_cast<std::uint8_t>(bits(t));
  switch (t) {
    case Dtype::f64:
    case Dtype::f32:
    case Dtype::f16:
      return {floating, width, 1};
    case Dtype::bf16:
      return {bfloat, width, 1};
    case Dtype::i64:
    case Dtype::i32:
    case Dtype::s8:
      return {signed_int, width, 1};
    case Dtype::u8:
      return {unsigned_int, width, 1};
    case Dtype::boolean:
      return {truth, width, 1};
    default:
      refuse_as(ErrorCode::unsupported,
                "to_dlpack: {} is packed two to a byte, others read whole bytes; to_int() it first",
                name(t));
  }
}
std::optional<Dtype> dtype_of_type(ElementType type) {
  for (Dtype t : kAllDtypes) {
    if (is_packed(t)) continue;
    const ElementType own = type_of(t);
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return t;
  }
  return std::nullopt;
}

// What an exported structure keeps alive.
template <class Managed>
struct Lent {
  StoredView elements;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
  Managed managed{};

  static void let_go(Managed* managed) { delete static_cast<Lent*>(managed->context); }
};

template <class Managed>
Managed* lend_as(const StoredView& x, bool copy) {
  const ElementType type = type_of(x.dtype());  // refuses before anything is made
  StoredView elements = x;
  if (copy) {
    elements = StoredView::empty(x.stream(), x.dtype(), x.shape());
    backend_detail::copy(x.view, elements.view, x.stream());
  }
  // The other library does not know our stream.
  value_or_throw(x.stream().synchronize());
  auto* lent = new Lent<Managed>{std::move(elements), {}, {}, {}};
  const View& view = lent->elements.view;
  for (int d = 0; d < view.shape.rank(); ++d) {
    lent->shape[d] = view.shape[d];
    lent->strides[d] = view.strides[d];
  }
  const Device device = x.stream().device();
  lent->managed.tensor = {view.data,
                          {device.kind == DeviceKind::cpu ? cpu : cuda, device.ordinal},
                          view.shape.rank(),
                          type,
                          lent->shape,
                          lent->strides,
                          0};
  lent->managed.context = lent;
  lent->managed.deleter = &Lent<Managed>::let_go;
  return &lent->managed;
}

void check_device(DeviceId from, const Stream& stream) {
  const Device device = stream.device();
  const bool host = from.type == cpu || from.type == cuda_host;
  const bool cuda_memory = from.type == cuda || from.type == cuda_managed;
  if (!host && !cuda_memory)
    refuse_as(ErrorCode::device, "from_dlpack: device type {} is neither CPU nor CUDA", from.type);
  if (device.kind == DeviceKind::cpu ? !host : !cuda_memory || from.id != device.ordinal)
    refuse_as(ErrorCode::device, "from_dlpack: the memory is on {}, the tensor is wanted on {}",
              host ? "cpu" : fmt::format("cuda:{}", from.id), to_string(device));
}

View view_of(const Tensor& t, const Stream& stream, std::string_view kind) {
  check_device(t.device, stream);
  if (t.rank < 0 || t.rank > kMaxRank)
    refuse_as(ErrorCode::unsupported, "from_dlpack: {} axes, at most {}", t.rank, kMaxRank);
  const auto dtype = dtype_of_type(t.type);
  if (!dtype)
    refuse_as(ErrorCode::unsupported,
              "from_dlpack: elements of code {}, {} bits and {} lanes are none of Planck's dtypes",
              t.type.code, t.type.bits, t.type.lanes);
  tensor_detail::check_kind("from_dlpack", kind, *dtype);
  View view;
  view.dtype = *dtype;
  view.present = true;
  for (int d = 0; d < t.rank; ++d) view.shape.push_back(t.shape[d]);
  value_or_throw(check_shape(view.shape, "from_dlpack"));
  view.strides = row_major(view.shape);
  if (t.strides != nullptr)
    for (int d = 0; d < t.rank; ++d) view.strides[d] = t.strides[d];
  view.data = static_cast<std::byte*>(t.data) + t.byte_offset;
  if (numel(view.shape) > 0 && t.data == nullptr)
    refuse_as(ErrorCode::invalid_problem, "from_dlpack: no memory for shape {}",
              to_string(view.shape));
  tensor_detail::check_aligned(view.data, *dtype);
  return view;
}

// Calls the deleter with the last tensor.
template <class Managed>
struct Owner {
  Managed* managed = nullptr;
  Owner() = default;
  Owner(const Owner&) = delete;
  ~Owner() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
};

template <class Managed>
StoredView borrow_as(Managed* managed, const Stream& stream, std::string_view kind) {
  const View view = view_of(managed->tensor, stream, kind);
  const auto owner = std::make_shared<Owner<Managed>>();
  StoredView elements = backend_detail::borrow(stream, view, owner);
  owner->managed = managed;  // nothing can fail any more: until here it is the caller's
  return elements;
}

}  // namespace

ManagedTensorVersioned* lend(const StoredView& x, bool copy) {
  auto* managed = lend_as<ManagedTensorVersioned>(x, copy);
  managed->version = {kMajor, kMinor};
  managed->flags = copy ? kIsCopied : kReadOnly;
  return managed;
}
ManagedTensor* lend_unversioned(const StoredView& x) { return lend_as<ManagedTensor>(x, true); }

StoredView borrow(ManagedTensorVersioned* managed, const Stream& stream, std::string_view kind) {
  if (managed->version.major != kMajor)
    refuse_as(ErrorCode::unsupported, "from_dlpack: version {}.{}, {}.x is known",
              managed->version.major, managed->version.minor, kMajor);
  return borrow_as(managed, stream, kind);
}
StoredView borrow(ManagedTensor* managed, const Stream& stream, std::string_view kind) {
  return borrow_as(managed, stream, kind);
}

void refuse_tracked() {
  raise(ErrorCode::not_differentiable,
        "to_dlpack: gradients do not pass to other libraries; detach() the tensor first");
}

}  // namespace planck::dlpack
