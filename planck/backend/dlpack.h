// Tensors to and from other libraries without a copy, by DLPack 1.x
// (https://dmlc.github.io/dlpack): the structures of its C interface, and both directions.
//
//   auto* managed = to_dlpack(x);                      // hand it over; its deleter lets x go
//   auto y = from_dlpack<Cpu>(managed);                // from here on y's tensors hold it
//   auto z = from_dlpack<Cpu, IntKind>(unversioned);   // of libraries before 1.0
//
// Structures have the layout of dlpack.h, so a DLManagedTensorVersioned* of another library is cast
// to a ManagedTensorVersioned*. Tensors here are values that nothing changes: what is exported says
// that it is read-only, or is a copy (an unversioned structure cannot say so, and always is one);
// what is imported must not be written to while tensors see it.
//
// from_dlpack takes the structure where it succeeds and calls its deleter once, when the last
// tensor is gone; where it throws the caller keeps it. Refused are dtypes that Planck does not
// have, elements of several lanes, more than 8 axes, other devices, versions other than 1.x, and,
// when exporting, packed 4-bit integers and tensors that gradients are wanted of (detach() them).
// On CUDA the producer's work must be done, or ordered before the stream of `device`.
#pragma once

#include "planck/backend/device_backend.h"

namespace planck {

namespace dlpack {

inline constexpr std::uint32_t kMajor = 1, kMinor = 0;

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : std::uint8_t {
  signed_int = 0,
  unsigned_int = 1,
  floating = 2,
  bfloat = 4,
  truth = 6
};
inline constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2, kSubBytePadded = 4;

struct DeviceId {
  std::int32_t type, id;
};
struct ElementType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Version {
  std::uint32_t major, minor;
};
// strides count elements; null where they are row-major.
struct Tensor {
  void* data;
  DeviceId device;
  std::int32_t rank;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);  // may be null
};
struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);  // may be null
  std::uint64_t flags;
  Tensor tensor;
};

// The same on primitives of Cpu and Cuda.
ManagedTensorVersioned* lend(const StoredView& x, bool copy);
ManagedTensor* lend_unversioned(const StoredView& x);
StoredView borrow(ManagedTensorVersioned* managed, const Stream& stream, std::string_view kind);
StoredView borrow(ManagedTensor* managed, const Stream& stream, std::string_view kind);

[[noreturn]] void refuse_tracked();

}  // namespace dlpack

namespace dlpack_detail {

template <class B, class K>
const StoredView& stored(const Tensor<B, K>& x) {
  return x.primitive();
}
template <class B, class K>
requires AutodiffBackend<B>
auto stored(const Tensor<B, K>& x) {
  if constexpr (std::same_as<K, FloatKind>)
    if (x.is_tracked()) dlpack::refuse_tracked();
  return StoredView(stored(x.inner()));
}

template <class B, class K, class Managed>
Tensor<B, K> taken(Managed* managed, const typename B::Device& device) {
  if constexpr (AutodiffBackend<B>)
    return Tensor<B, K>::from_inner(taken<typename B::InnerBackend, K>(managed, device));
  else
    return Tensor<B, K>(Primitive<K>{dlpack::borrow(managed, device, K::name)});
}

}  // namespace dlpack_detail

// x for another library, which calls the deleter once. Shares x's elements, read-only, or copies.
template <class B, class K>
dlpack::ManagedTensorVersioned* to_dlpack(const Tensor<B, K>& x, bool copy = false) {
  return dlpack::lend(dlpack_detail::stored(x), copy);
}
// A copy of x for libraries before DLPack 1.0.
template <class B, class K>
dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor<B, K>& x) {
  return dlpack::lend_unversioned(dlpack_detail::stored(x));
}
// Another library's tensor. Its dtype must be of kind K, its memory on the device.
template <class B, class K = FloatKind>
Tensor<B, K> from_dlpack(dlpack::ManagedTensorVersioned* managed,
                         const typename B::Device& device = B::default_device()) {
  return dlpack_detail::taken<B, K>(managed, device);
}
// The same of libraries before DLPack 1.0.
template <class B, class K = FloatKind>
Tensor<B, K> from_dlpack(dlpack::ManagedTensor* managed,
                         const typename B::Device& device = B::default_device()) {
  return dlpack_detail::taken<B, K>(managed, device);
}

}  // namespace planck
