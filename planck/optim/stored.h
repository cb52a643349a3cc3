// Tensors of any backend as what kernels see: a view of storage. Those of Cpu and Cuda are that
// already; others go through the host, and come back.
#pragma once

#include "planck/backend/device_backend.h"
#include "planck/nn/parameter.h"

namespace planck::optim::detail {

template <class B>
inline constexpr bool kIsStored = std::derived_from<typename B::FloatTensor, StoredView>;

template <class B, class K>
StoredView stored(const Tensor<B, K>& t) {
  if constexpr (kIsStored<B>) {
    return t.primitive();
  } else {
    std::vector<std::byte> bytes(bytes_for(t.dtype(), t.numel()));
    B::to_host(t.primitive(), bytes.data());
    return backend_detail::from_host(Cpu::default_device(), t.dtype(), t.shape(), bytes.data());
  }
}
template <class B>
typename B::FloatTensor primitive_of(const StoredView& t, const typename B::Device& device) {
  if constexpr (kIsStored<B>) {
    (void)device;
    return {t};
  } else {
    std::vector<std::byte> bytes(bytes_for(t.dtype(), numel(t.shape())));
    backend_detail::to_host(t, bytes.data());
    return B::template from_host<FloatKind>(device, t.dtype(), t.shape(), bytes.data());
  }
}
template <class B>
Stream stream_of(const typename B::Device& device) {
  if constexpr (kIsStored<B>)
    return device;
  else
    return Cpu::default_device();
}

// A parameter's tensor, as its holder alone has it, until it is given back or the loan ends.
template <class A>
class WeightLoan {
 public:
  using B = nn::Inner<A>;
  // `w` holds the tensor meanwhile.
  WeightLoan(nn::Parameter<A>& parameter, StoredView& w) : w_(w) {
    if constexpr (kIsStored<B>) {
      loan_.emplace(parameter);
      w = std::move(loan_->value);
    } else {
      parameter_ = &parameter;
      w = stored(parameter.value());
    }
  }
  WeightLoan(const WeightLoan&) = delete;
  ~WeightLoan() {
    if constexpr (kIsStored<B>)
      if (loan_) loan_->value = {std::move(w_)};
  }
  // What may fail of giving it back.
  void prepare_return() {
    if constexpr (!kIsStored<B>) {
      back_ = primitive_of<B>(w_, parameter_->value().device());
      loan_.emplace(*parameter_);
    }
  }
  void give_back() {
    if constexpr (kIsStored<B>)
      loan_->value = {std::move(w_)};
    else
      loan_->value = std::move(*back_);
    loan_.reset();
  }

 private:
  StoredView& w_;
  std::optional<typename nn::Parameter<A>::Loan> loan_;
  // Of tensors that went through the host.
  nn::Parameter<A>* parameter_ = nullptr;
  std::optional<typename B::FloatTensor> back_;
};

}  // namespace planck::optim::detail
