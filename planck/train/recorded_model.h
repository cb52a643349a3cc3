// What a recorded step reads of a model, and what it leaves there.
#pragma once

#include <string>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/nn/module.h"

namespace planck::train::detail {

StoredView own_copy(const StoredView& t);
void copy_over(const StoredView& from, const StoredView& to);

// What a recorded step reads of a model: where its tensors lie, and what the host decides by.
struct Seen {
  std::vector<const void*> places;
  std::vector<bool> modes;
  friend bool operator==(const Seen&, const Seen&) = default;
};
template <class A>
Seen seen(const nn::PartList& parts) {
  Seen s;
  parts.for_each<nn::Parameter<A>>([&](const std::string&, nn::Parameter<A>& p) {
    s.places.push_back(p.value().primitive().view.data);
    s.modes.push_back(p.requires_grad());
  });
  const auto buffer = [&](const std::string&, auto& b) {
    s.places.push_back(b.value.primitive().view.data);
  };
  parts.for_each<nn::Buffer<A>>(buffer);
  parts.for_each<nn::IntBuffer<A>>(buffer);
  parts.for_each<nn::Mode>(
      [&](const std::string&, nn::Mode& mode) { s.modes.push_back(mode.training); });
  return s;
}

// Buffers of a model, which a forward pass may give other values: those it had.
template <class A>
class BuffersBefore {
 public:
  using B = nn::Inner<A>;

  explicit BuffersBefore(const nn::PartList& parts) {
    const auto keep = [](auto& all) {
      return [&all](const std::string&, auto& b) { all.emplace_back(&b, b.value); };
    };
    parts.for_each<nn::Buffer<A>>(keep(floats_));
    parts.for_each<nn::IntBuffer<A>>(keep(integers_));
  }
  BuffersBefore(const BuffersBefore&) = delete;
  ~BuffersBefore() {
    for (auto& [buffer, value] : floats_) buffer->value = std::move(value);
    for (auto& [buffer, value] : integers_) buffer->value = std::move(value);
  }
  // Puts the new values where the old ones are; those that it wrote to.
  std::vector<const void*> write() {
    std::vector<const void*> written;
    const auto write = [&](const auto& all) {
      for (const auto& [buffer, value] : all) {
        const StoredView &from = buffer->value.primitive(), &to = value.primitive();
        if (from.view.data == to.view.data) continue;
        copy_over(from, to);
        written.push_back(to.view.data);
      }
    };
    write(floats_);
    write(integers_);
    return written;
  }

 private:
  std::vector<std::pair<nn::Buffer<A>*, Tensor<B>>> floats_;
  std::vector<std::pair<nn::IntBuffer<A>*, Tensor<B, IntKind>>> integers_;
};

// Parameters of a model, which a step leaves to its optimizer: the values they had, which they get
// back.
template <class A>
class ParametersBefore {
 public:
  explicit ParametersBefore(const nn::PartList& parts) {
    parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
      all_.push_back({path, &p, p.value()});
    });
  }
  ParametersBefore(const ParametersBefore&) = delete;
  ~ParametersBefore() {
    for (const auto& [path, parameter, value] : all_)
      if (is_set(*parameter, value)) parameter->set(value);
  }
  // One that was set meanwhile; "" where none was.
  std::string changed() const {
    for (const auto& [path, parameter, value] : all_)
      if (is_set(*parameter, value)) return path;
    return {};
  }

 private:
  struct One {
    std::string path;
    nn::Parameter<A>* parameter;
    Tensor<nn::Inner<A>> value;
  };
  static bool is_set(const nn::Parameter<A>& p, const Tensor<nn::Inner<A>>& value) {
    return p.value().primitive().view.data != value.primitive().view.data;
  }
  std::vector<One> all_;
};

// Calls f(buffer) for all buffers of a model.
template <class A, class F>
void for_each_buffer(const nn::PartList& parts, const F& f) {
  parts.for_each<nn::Buffer<A>>([&](const std::string&, auto& b) { f(b); });
  parts.for_each<nn::IntBuffer<A>>([&](const std::string&, auto& b) { f(b); });
}
template <class Buffer>
bool held_alone(const Buffer& buffer) {
  return buffer.value.primitive().storage->writable();
}

}  // namespace planck::train::detail
