// Gradients of a model by path: collected from a backward pass, added up over several, clipped.
// Those of tables that were read by rows (nn::Embedding with sparse gradients) are kept as rows.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "planck/autodiff/row_leaf.h"
#include "planck/nn/module.h"
#include "planck/optim/stored.h"

namespace planck::optim {

// A map from paths to gradients, and beside it the gradients that are rows of a table.
template <class B>
struct ModelGradients : std::map<std::string, Tensor<B>, std::less<>> {
  std::map<std::string, RowGradient<B>, std::less<>> rows;

  ModelGradients();
  ModelGradients(const ModelGradients&);
  ModelGradients(ModelGradients&&) noexcept;
  ModelGradients& operator=(const ModelGradients&);
  ModelGradients& operator=(ModelGradients&&) noexcept;
  ~ModelGradients();
};
template <class B>
ModelGradients<B>::ModelGradients() = default;
template <class B>
ModelGradients<B>::ModelGradients(const ModelGradients&) = default;
template <class B>
ModelGradients<B>::ModelGradients(ModelGradients&&) noexcept = default;
template <class B>
ModelGradients<B>& ModelGradients<B>::operator=(const ModelGradients&) = default;
template <class B>
ModelGradients<B>& ModelGradients<B>::operator=(ModelGradients&&) noexcept = default;
template <class B>
ModelGradients<B>::~ModelGradients() = default;

template <class A>
ModelGradients<nn::Inner<A>> collect_parts(const nn::PartList& parts,
                                           const typename A::Gradients& gradients) {
  using B = nn::Inner<A>;
  ModelGradients<B> found;
  bool any_rows = false;
  gradients.for_each([&](const Node<B>& leaf, const auto&) {
    any_rows |= dynamic_cast<const RowLeaf<B>*>(&leaf) != nullptr;
  });
  parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
    auto g = p->grad(gradients);
    if (any_rows && p->is_tracked())
      if (auto rows = row_gradient(*p, gradients)) {
        if (!g) {
          found.rows.emplace(path, std::move(*rows));
          return;
        }
        g = *g + rows->dense();  // the table is used otherwise too
      }
    if (g) found.emplace(path, std::move(*g));
  });
  return found;
}
// The gradient of every parameter that has one.
template <class A, class Module>
ModelGradients<nn::Inner<A>> collect(Module& module, const typename A::Gradients& gradients) {
  return collect_parts<A>(nn::parts_of(module), gradients);
}

// total += more, for gradients of several small batches.
template <class B>
void accumulate(ModelGradients<B>& total, const ModelGradients<B>& more) {
  const auto add = [&](const std::string& path, const Tensor<B>& g) {
    const auto [at, fresh] = total.try_emplace(path, g);
    if (!fresh) at->second = std::move(at->second) + g;
  };
  // A parameter has rows in both, or becomes dense.
  for (const auto& [path, g] : more) {
    if (const auto old = total.rows.find(path); old != total.rows.end()) {
      add(path, old->second.dense());
      total.rows.erase(old);
    }
    add(path, g);
  }
  for (const auto& [path, g] : more.rows) {
    if (total.contains(path)) {
      add(path, g.dense());
      continue;
    }
    const auto [at, fresh] = total.rows.try_emplace(path, g);
    if (!fresh) at->second = add_row_gradients<B>({at->second, g});
  }
}
// All gradients times a factor.
template <class B>
void scale(ModelGradients<B>& gradients, double factor) {
  for (auto& [path, g] : gradients) g = std::move(g) * factor;
  for (auto& [path, g] : gradients.rows) g.values = std::move(g.values) * factor;
}

namespace detail {

void check_highest(std::string_view what, double highest);
double norm_of(std::span<const StoredView> tensors);
// A norm and a factor, as step/step.h has them; of no tensors at all: 0 and 1 / scale.
StoredView clip_of(std::span<const StoredView> tensors, double highest, double scale);
StoredView element(const StoredView& t, std::int64_t i);

// In the order of paths; rows after the others.
template <class B>
std::vector<StoredView> all_of(const ModelGradients<B>& gradients) {
  std::vector<StoredView> all;
  for (const auto& [path, g] : gradients) all.push_back(stored(g));
  for (const auto& [path, g] : gradients.rows) all.push_back(stored(g.values));
  return all;
}

}  // namespace detail

// The norm of all gradients together: Σ g² of each tensor is the canonical sum in the compute type,
// in f64 where that overflows or nearly vanishes; those of several are added in f64 in the order of
// paths, rows after the others. Waits for the device.
template <class B>
double norm(const ModelGradients<B>& gradients) {
  return detail::norm_of(detail::all_of(gradients));
}
// Scales all gradients down to this norm where they exceed it. Returns the norm they had.
template <class B>
double clip_norm(ModelGradients<B>& gradients, double highest) {
  detail::check_highest("clip_norm", highest);
  const double before = norm(gradients);
  if (before > highest) scale(gradients, highest / before);
  return before;
}

// What a step multiplies gradients with; both are f64 and lie where the gradients do.
template <class B>
struct Clip {
  std::optional<Tensor<B>> norm = {}, factor = {};
};
// The same for a step, without waiting and without a pass over memory of its own: a step that is
// given this has the bits of clip_norm, then step. `loss_scale`: what the loss was multiplied with.
//
//   adam.step(model, gradients, optim::clip(gradients, 1.0));
template <class B>
Clip<B> clip(const ModelGradients<B>& gradients, double highest, double loss_scale = 1) {
  const auto both = detail::clip_of(detail::all_of(gradients), highest, loss_scale);
  const auto part = [&](std::int64_t i) {
    const auto device =
        gradients.empty() ? B::default_device() : gradients.begin()->second.device();
    return Tensor<B>(detail::primitive_of<B>(detail::element(both, i), device));
  };
  return {part(0), part(1)};
}

// Those gradients whose path the filter takes, out of the others: for a model of two optimizers.
//
//   const auto matrices = optim::take(gradients, [](const std::string& p) { return … });
//   muon.step(model, matrices);  adam.step(model, gradients);
template <class B>
ModelGradients<B> take(ModelGradients<B>& gradients,
                       const std::function<bool(const std::string&)>& wanted) {
  ModelGradients<B> taken;
  const auto move = [&](auto& from, auto& to) {
    for (auto at = from.begin(); at != from.end();) {
      const auto here = at++;
      if (wanted(here->first)) to.insert(from.extract(here));
    }
  };
  move(static_cast<std::map<std::string, Tensor<B>, std::less<>>&>(gradients),
       static_cast<std::map<std::string, Tensor<B>, std::less<>>&>(taken));
  move(gradients.rows, taken.rows);
  return taken;
}

}  // namespace planck::optim
