// The generators of a model, whose draws are recorded: each run draws from where they are by then.
#pragma once

#include <optional>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/core/stream/recording.h"
#include "planck/nn/module.h"

namespace planck::train::detail {

// Where a model's generators are.
class GeneratorsBefore {
 public:
  explicit GeneratorsBefore(const nn::PartList& parts);
  // Whether numbers were drawn since then, and none from these.
  bool others_drew() const;
  void put_back() const;

 private:
  std::uint64_t draws_ = Rng::draws_of_this_thread;
  std::vector<std::pair<Rng*, Rng>> all_;
};

class Generators {
 public:
  Generators() = default;
  // As a recording begins.
  Generators(const nn::PartList& parts, const Stream& stream);
  std::vector<Recording::Generator> places() const;
  // As it ends: how far each has moved. Throws where others drew, too.
  void finish(const nn::PartList& parts, const Recording& recording, std::uint64_t draws);

  // Whether those that were alike still are.
  bool fit(const nn::PartList& parts) const;
  // Before a run: it draws from where the model's generators are, and they move on.
  void advance(const nn::PartList& parts) const;

 private:
  std::vector<Rng> first_;
  std::vector<std::uint64_t> moved_;
  std::optional<StoredView> now_;  // seed and offset of each
};

}  // namespace planck::train::detail
