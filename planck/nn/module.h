// Modules: plain structs of named parameters with a forward operator, generic over a backend.
//
//   template <class B>
//   struct Net {
//     nn::Linear<B> first, second;
//     Tensor<B> operator()(const Tensor<B>& x) { return second(relu(first(x))); }
//     void visit(auto&& part) { part("first", first); part("second", second); }
//   };
//
// visit() names the parts once; everything else follows from it: parameters by path
// ("first.weight"), training and evaluation, the state as a flat map, quantization. A module is a
// value: a copy is a model of its own that shares elements until one of them is trained on.
//
// What parts there are: Parameter (trained), Buffer and IntBuffer (state that is not), Mode
// (training or not), Rng (random state), modules, and optionals and vectors of those.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planck/autodiff/autodiff.h"
#include "planck/nn/state_dict.h"
#include "planck/ops/elementwise/elementwise.functions.h"

namespace planck::nn {

namespace detail {
template <class B>
struct InnerOf {
  using type = B;
};
template <AutodiffBackend B>
struct InnerOf<B> {
  using type = typename B::InnerBackend;
};
}  // namespace detail

// The backend that holds values without gradients: B's inner one, or B itself.
template <class B>
using Inner = typename detail::InnerOf<B>::type;

// A tensor without history, on B and on its inner backend.
template <class B>
Tensor<B> constant(const Tensor<Inner<B>>& t) {
  if constexpr (AutodiffBackend<B>)
    return Tensor<B>(B::from_inner(t.primitive()));
  else
    return t;
}
// The same for integers.
template <class B>
Tensor<B, IntKind> constant(const Tensor<Inner<B>, IntKind>& t) {
  if constexpr (AutodiffBackend<B>)
    return Tensor<B, IntKind>(B::int_from_inner(t.primitive()));
  else
    return t;
}
// A tensor's values on the inner backend.
template <class B, class K>
Tensor<Inner<B>, K> plain(const Tensor<B, K>& t) {
  if constexpr (AutodiffBackend<B>)
    return t.inner();
  else
    return t;
}
// The same values, cut off from how they came about.
template <class B>
Tensor<B> detached(const Tensor<B>& t) {
  if constexpr (AutodiffBackend<B>)
    return t.detach();
  else
    return t;
}

// What is trained. Reads as a tensor; with gradients, as a leaf of the graph.
template <class B>
class Parameter {
 public:
  explicit Parameter(const Tensor<Inner<B>>& value) : value_(leaf(value)) {}
  const Tensor<B>& operator*() const { return value_; }
  const Tensor<B>* operator->() const { return &value_; }
  Tensor<Inner<B>> value() const { return plain(value_); }
  void set(const Tensor<Inner<B>>& value) { value_ = leaf(value); }

 private:
  static Tensor<B> leaf(const Tensor<Inner<B>>& value) {
    if constexpr (AutodiffBackend<B>)
      return constant<B>(value).require_grad();
    else
      return value;
  }
  Tensor<B> value_;
};

// State that is not trained: running statistics, scales found from data.
template <class B>
struct Buffer {
  Tensor<Inner<B>> value;
};
template <class B>
struct IntBuffer {
  Tensor<Inner<B>, IntKind> value;
};

// Whether dropout drops and statistics are gathered.
struct Mode {
  bool training = true;
};

namespace detail {

template <class T>
inline constexpr bool kIsLeaf = false;
template <class B>
inline constexpr bool kIsLeaf<Parameter<B>> = true;
template <class B>
inline constexpr bool kIsLeaf<Buffer<B>> = true;
template <class B>
inline constexpr bool kIsLeaf<IntBuffer<B>> = true;
template <>
inline constexpr bool kIsLeaf<Mode> = true;
template <>
inline constexpr bool kIsLeaf<Rng> = true;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// One name below another: "outer.name"; either may be empty.
std::string joined(const std::string& outer, std::string_view name);
std::string indexed(std::string_view name, std::size_t i);  // "name.i"

template <class F>
class Walker {
 public:
  Walker(F& f, std::string path) : f_(f), path_(std::move(path)) {}

  template <class T>
  void operator()(std::string_view name, T& part) {
    if constexpr (kIsOptional<T>) {
      if (part) (*this)(name, *part);
    } else if constexpr (kIsVector<T>) {
      for (std::size_t i = 0; i < part.size(); ++i) (*this)(indexed(name, i), part[i]);
    } else {
      const std::string path = joined(path_, name);
      if constexpr (std::invocable<F&, const std::string&, T&>) f_(path, part);
      if constexpr (!kIsLeaf<T>) part.visit(Walker(f_, path));
    }
  }

 private:
  F& f_;
  std::string path_;
};

}  // namespace detail

// Calls f(path, part) for every part of a module, however deep, that f takes. Parts come in the
// order in which visit() names them; a module comes before its parts.
template <class Module, class F>
void for_each_part(Module& module, F f) {
  detail::Walker<F>(f, "")("", module);
}

// What can be done with a part that is no module, whatever its type. One object a type.
struct PartType {
  StateEntry (*entry)(const void* part);  // null where it is no state
  // The entry of this path must fit.
  void (*load)(void* part, const StateDict& state, const std::string& path);
};
template <class T>
const PartType& part_type();

class QuantizableLayer;

// All parts of a module, flat, in the order in which visit() names them.
class PartList {
 public:
  struct Part {
    std::string path;
    void* object;
    const PartType* type;
  };
  struct Layer {
    std::string path;
    QuantizableLayer* layer;
  };

  template <class T>
  void operator()(std::string_view name, T& part) {
    if constexpr (detail::kIsOptional<T>) {
      if (part) (*this)(name, *part);
    } else if constexpr (kIsVector<T>) {
      for (std::size_t i = 0; i < part.size(); ++i) (*this)(detail::indexed(name, i), part[i]);
    } else {
      std::string outer = enter(name);
      if constexpr (std::is_base_of_v<QuantizableLayer, T>) add(part);
      if constexpr (detail::kIsLeaf<T>)
        add(&part, part_type<T>());
      else
        part.visit(*this);
      leave(std::move(outer));
    }
  }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<Layer>& quantizable() const { return quantizable_; }

  // Calls f(path, part) for every part of type T.
  template <class T, class F>
  void for_each(F&& f) const {
    for (const Part& p : parts_)
      if (p.type == &part_type<T>()) f(p.path, *static_cast<T*>(p.object));
  }

 private:
  std::string enter(std::string_view name);  // the path outside
  void leave(std::string&& outer);
  void add(void* part, const PartType& type);
  void add(QuantizableLayer& layer);

  std::string path_;
  std::vector<Part> parts_;
  std::vector<Layer> quantizable_;
};

template <class Module>
PartList parts_of(Module& module) {
  PartList list;
  list("", module);
  return list;
}

// Calls f(path, parameter) for every parameter of a module.
template <class B, class Module, class F>
void for_each_parameter(Module& module, F f) {
  parts_of(module).template for_each<Parameter<B>>(f);
}

void train(const PartList& parts, bool training);
// Dropout drops, normalization and observers gather statistics; or not.
template <class Module>
void train(Module& module, bool training = true) {
  train(parts_of(module), training);
}
// Dropout drops nothing, statistics stay as they are.
template <class Module>
void eval(Module& module) {
  train(parts_of(module), false);
}

// Modules one after the other. Parts are called "0", "1", …
template <class... M>
class Sequential {
 public:
  explicit Sequential(M... modules) : modules_(std::move(modules)...) {}
  template <class X>
  auto operator()(const X& x) {
    return apply<0>(x);
  }
  void visit(auto&& part) {
    int i = 0;
    std::apply([&](auto&... m) { (part(std::to_string(i++), m), ...); }, modules_);
  }
  template <std::size_t I>
  auto& get() {
    return std::get<I>(modules_);
  }

 private:
  template <std::size_t I, class X>
  auto apply(const X& x) {
    if constexpr (I + 1 == sizeof...(M))
      return std::get<I>(modules_)(x);
    else
      return apply<I + 1>(std::get<I>(modules_)(x));
  }
  std::tuple<M...> modules_;
};

// A tensor's elements on the host.
template <class B, class K>
StateEntry to_entry(const Tensor<B, K>& t) {
  StateEntry e{t.dtype(), t.shape(), std::vector<std::byte>(bytes_for(t.dtype(), t.numel()))};
  B::to_host(t.primitive(), e.bytes.data());
  return e;
}
// The tensor that an entry holds, on a device.
template <class B, class K>
Tensor<B, K> to_tensor(const StateEntry& e, const typename B::Device& device) {
  return Tensor<B, K>(B::template from_host<K>(device, e.dtype, e.shape, e.bytes.data()));
}

namespace detail {

template <class B, class K>
Tensor<B, K> found(const Tensor<B, K>& old, const StateDict& state, const std::string& path) {
  return to_tensor<B, K>(find_entry(state, path, old.dtype(), old.shape()), old.device());
}

template <class T>
struct PartAccess {  // buffers
  static StateEntry entry(const void* p) { return to_entry(static_cast<const T*>(p)->value); }
  static void load(void* p, const StateDict& state, const std::string& path) {
    auto& value = static_cast<T*>(p)->value;
    value = found(value, state, path);
  }
};
template <class B>
struct PartAccess<Parameter<B>> {
  static StateEntry entry(const void* p) {
    return to_entry(static_cast<const Parameter<B>*>(p)->value());
  }
  static void load(void* p, const StateDict& state, const std::string& path) {
    auto& parameter = *static_cast<Parameter<B>*>(p);
    parameter.set(found(parameter.value(), state, path));
  }
};

}  // namespace detail

template <class T>
const PartType& part_type() {
  static constexpr PartType type{&detail::PartAccess<T>::entry, &detail::PartAccess<T>::load};
  return type;
}
template <>
const PartType& part_type<Rng>();
template <>
const PartType& part_type<Mode>();

}  // namespace planck::nn
