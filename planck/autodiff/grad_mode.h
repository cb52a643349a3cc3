// NoGrad: work that is not to be differentiated. Ops on tracked tensors make no node and keep
// nothing, on this thread and as long as the scope lasts; every level of Autodiff<Autodiff<B>>.
//
//   const NoGrad scope;
//   const auto y = model(x);  // as cheap as on the inner backend
#pragma once

namespace planck {

namespace autodiff_detail {

// Sets whether ops are recorded, for a scope.
class Recording {
 public:
  explicit Recording(bool on) : before_(on_) { on_ = on; }
  Recording(const Recording&) = delete;
  ~Recording() { on_ = before_; }
  static bool on() { return on_; }

 private:
  static inline constinit thread_local bool on_ = true;
  const bool before_;
};

}  // namespace autodiff_detail

class [[nodiscard]] NoGrad {
 public:
  NoGrad() : scope_(false) {}

 private:
  autodiff_detail::Recording scope_;
};

// The result of f, computed without a graph.
template <class F>
decltype(auto) no_grad(F&& f) {
  const NoGrad scope;
  return f();
}
// Whether ops on tracked tensors are recorded on this thread.
inline bool grad_enabled() { return autodiff_detail::Recording::on(); }

}  // namespace planck
