// An optimizer whose state is spread over the workers (ZeRO's first stage): each keeps the state of
// some parameters, steps those, and sends them to the others. The same bits as the whole optimizer.
//
//   dist::Sharded<A, optim::Adam<A>> adam(workers, optim::Adam<A>({.rate = 1e-3}));
//   adam.step(model, found.gradients, optim::clip(found.gradients, 1.0));
//
// Gradients are those of the whole model, the same on every worker, and so are clip and loss scale.
//
// Who owns which parameter is a function of the parameters' sizes and the number of workers: each,
// from the largest to the smallest, goes to the worker that has the fewest elements so far.
#pragma once

#include <algorithm>
#include <cstring>

#include "planck/core/refuse.h"
#include "planck/dist/state.h"
#include "planck/optim/optimizer.h"

namespace planck::dist {

struct OwnedPath {
  std::string path;
  std::int64_t elements;
};
// The worker of each path.
std::map<std::string, int, std::less<>> owners_of(std::vector<OwnedPath> paths, int workers);
// The entries of an optimizer's state that a worker needs: those whose name ends in the path of a
// parameter it owns, and those that belong to no parameter.
nn::StateDict owned_part(const nn::StateDict& state,
                         const std::map<std::string, int, std::less<>>& owners, int worker);

template <class A, class Optimizer>
class Sharded {
 public:
  using B = nn::Inner<A>;
  Sharded(Communicator& workers, Optimizer optimizer)
      : workers_(workers), optimizer_(std::move(optimizer)) {}

  // Its options may be changed between steps, the same way on every worker.
  Optimizer& optimizer() { return optimizer_; }

  template <class Module>
  void step(Module& module, const optim::ModelGradients<B>& gradients,
            const optim::Clip<B>& clip = {}) {
    step(nn::parts_of(module), gradients, clip);
  }
  void step(const nn::PartList& parts, const optim::ModelGradients<B>& gradients,
            const optim::Clip<B>& clip = {}) {
    find_owners(parts);
    optim::ModelGradients<B> mine;
    for (const auto& [path, g] : gradients)
      if (owner_of(path) == workers_.rank()) mine.emplace(path, g);
    for (const auto& [path, g] : gradients.rows)
      if (owner_of(path) == workers_.rank()) mine.rows.emplace(path, g);
    optimizer_.step(parts, mine, clip);
    share(parts, gradients);
  }

  // The state of the whole optimizer, on every worker: any number of them can go on with it.
  nn::StateDict state() { return gather(workers_, optimizer_.state()); }
  // This worker's part of it alone, for a checkpoint in parts.
  nn::StateDict own_state() const { return optimizer_.state(); }
  template <class Module>
  void load_state(Module& module, const nn::StateDict& whole,
                  const typename B::Device& device = B::default_device()) {
    find_owners(nn::parts_of(module));
    optimizer_.load_state(owned_part(whole, owners_, workers_.rank()), device);
  }

 private:
  void find_owners(const nn::PartList& parts) {
    std::vector<OwnedPath> paths;
    parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
      paths.push_back({path, p->numel()});
    });
    owners_ = owners_of(std::move(paths), workers_.size());
  }
  int owner_of(const std::string& path) const {
    const auto found = owners_.find(path);
    if (found == owners_.end())
      refuse("sharded: there is a gradient of {}, the model has no such parameter", {path});
    return found->second;
  }
  // Every owner's parameters, to all: one message of each worker.
  void share(const nn::PartList& parts, const optim::ModelGradients<B>& gradients) {
    if (workers_.size() == 1) return;
    std::vector<std::pair<int, nn::Parameter<A>*>> changed;
    std::vector<std::size_t> bytes(static_cast<std::size_t>(workers_.size()));
    const auto size_of = [](nn::Parameter<A>& p) { return bytes_for(p->dtype(), p->numel()); };
    parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
      if (!gradients.contains(path) && !gradients.rows.contains(path)) return;
      changed.emplace_back(owners_.at(path), &p);
      bytes[static_cast<std::size_t>(owners_.at(path))] += size_of(p);
    });
    std::vector<std::byte> all;
    for (int r = 0; r < workers_.size(); ++r) {
      if (bytes[static_cast<std::size_t>(r)] == 0) continue;
      all.resize(bytes[static_cast<std::size_t>(r)]);
      std::size_t at = 0;
      for (const auto& [owner, p] : changed)
        if (owner == r && r == workers_.rank()) {
          B::to_host(p->value().primitive(), all.data() + at);
          at += size_of(*p);
        }
      workers_.host().broadcast(all.data(), all.size(), r);
      at = 0;
      for (const auto& [owner, p] : changed)
        if (owner == r && r != workers_.rank()) {
          const auto before = p->value();
          p->set(Tensor<B>(B::template from_host<FloatKind>(before.device(), before.dtype(),
                                                            before.shape(), all.data() + at)));
          at += size_of(*p);
        }
    }
  }

  Communicator& workers_;
  Optimizer optimizer_;
  std::map<std::string, int, std::less<>> owners_;
};

}  // namespace planck::dist
