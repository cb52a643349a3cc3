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
// ("first.weight"), training and evaluation, freezing, the state as a flat map, quantization. A
// module is a value: a copy is a model of its own, with leaves of its own, that shares elements
// until one of them is trained on. Paths are distinct; a part that is named twice is one part.
//
// What parts there are: Parameter (trained), Buffer and IntBuffer (state that is not), Mode
// (training or not), Rng (random state), modules, and optionals and vectors of those.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planck/nn/parameter.h"
#include "planck/nn/state_dict.h"

namespace planck::nn {

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

// What can be done with a part that is no module, whatever its type. One object per type.
struct PartType {
  // Null where it is no state.
  StateEntry (*entry)(const void* part);
  InputSpec (*spec)(const void* part);  // dtype and shape of that entry
  // What the part would be with an entry that fits, and putting it in its place.
  std::shared_ptr<void> (*made)(const void* part, const StateEntry& entry);
  void (*take)(void* part, void* made) noexcept;
  // Null where it is not trained.
  void (*requires_grad)(void* part, bool wanted);
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
    bool again = false;  // named before, by another path
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
      if constexpr (requires { part.read_ahead(); })
        readers_.push_back(
            {&part, [](void* p) -> bool { return static_cast<T*>(p)->read_ahead(); },
             [](const void* p, bool ahead) { return static_cast<const T*>(p)->stays(ahead); }});
      if constexpr (detail::kIsLeaf<T>)
        add(&part, part_type<T>());
      else
        part.visit(*this);
      leave(std::move(outer));
    }
  }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<Layer>& quantizable() const { return quantizable_; }

  // Calls f(path, part) for every part of type T, once for each.
  template <class T, class F>
  void for_each(F&& f) const {
    for (const Part& p : parts_)
      if (p.type == &part_type<T>() && !p.again) f(p.path, *static_cast<T*>(p.object));
  }
  // Modules that decide by a number of their state have read_ahead(): the host reads it now and
  // not in the next pass, and has what each decides. May wait for the device. Behind that pass
  // stay(), which does not wait, says whether others will decide the same.
  std::vector<bool> read_ahead() const;
  bool stay(const std::vector<bool>& ahead) const;
  // Refuses two parts of one path, and finds those that are named twice.
  void check();

 private:
  std::string enter(std::string_view name);  // the path outside
  void leave(std::string&& outer);
  void add(void* part, const PartType& type);
  void add(QuantizableLayer& layer);

  struct Reader {
    void* module;
    bool (*read)(void* module);
    bool (*stays)(const void* module, bool ahead);
  };

  std::string path_;
  std::vector<Part> parts_;
  std::vector<Layer> quantizable_;
  std::vector<Reader> readers_;
};

// The parts of a module.
template <class Module>
PartList parts_of(Module& module) {
  PartList list;
  list("", module);
  list.check();
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

void requires_grad(const PartList& parts, bool wanted, std::string_view below);
// Freezes the parameters of a module, or trains them again; with a path, those below it alone.
template <class Module>
void requires_grad(Module& module, bool wanted, std::string_view below = "") {
  requires_grad(parts_of(module), wanted, below);
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

template <class T>
struct PartAccess {  // buffers
  static const auto& value(const void* p) { return static_cast<const T*>(p)->value; }
  template <class B, class K>
  static T made(const T&, const Tensor<B, K>& value) {
    return {value};
  }
  static constexpr void (*kRequiresGrad)(void*, bool) = nullptr;
};
template <class B>
struct PartAccess<Parameter<B>> {
  static auto value(const void* p) { return static_cast<const Parameter<B>*>(p)->value(); }
  static Parameter<B> made(const Parameter<B>& old, const Tensor<Inner<B>>& value) {
    Parameter<B> fresh(value);
    fresh.requires_grad(old.requires_grad());
    return fresh;
  }
  static constexpr void (*kRequiresGrad)(void*, bool) = [](void* p, bool wanted) {
    static_cast<Parameter<B>*>(p)->requires_grad(wanted);
  };
};

template <class T>
std::shared_ptr<void> made_part(const void* part, const StateEntry& e) {
  const auto& old = PartAccess<T>::value(part);
  using Old = std::remove_cvref_t<decltype(old)>;
  const auto value = to_tensor<typename Old::Backend, typename Old::Kind>(e, old.device());
  return std::make_shared<T>(PartAccess<T>::made(*static_cast<const T*>(part), value));
}
template <class T>
void take_part(void* part, void* made) noexcept {
  *static_cast<T*>(part) = std::move(*static_cast<T*>(made));
}

}  // namespace detail

template <class T>
const PartType& part_type() {
  using Access = detail::PartAccess<T>;
  static constexpr PartType type{[](const void* p) { return to_entry(Access::value(p)); },
                                 [](const void* p) {
                                   const auto& value = Access::value(p);
                                   return InputSpec{value.dtype(), value.shape()};
                                 },
                                 &detail::made_part<T>, &detail::take_part<T>,
                                 Access::kRequiresGrad};
  return type;
}
template <>
const PartType& part_type<Rng>();
template <>
const PartType& part_type<Mode>();

}  // namespace planck::nn
