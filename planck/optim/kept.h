// What an optimizer keeps of parameters between steps, by path: slots, which are tensors of the
// parameter's shape, and a few numbers. It can be saved, and copies share tensors until they step.
//
// Slots have the parameter's dtype. Of a 16-bit parameter that has master weights they are f32, and
// so is one more tensor: the weight before it is rounded.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planck/backend/primitive.h"
#include "planck/nn/state_dict.h"
#include "planck/optim/scale/outcome.h"

namespace planck::optim {

struct Kept {
  std::vector<StoredView> slots;  // as many as have names, or none yet
  std::optional<StoredView> master;
  std::vector<double> numbers;
};
using KeptMap = std::map<std::string, Kept, std::less<>>;

// Of an optimizer: its name; the names of its slots; what its numbers are called, how many there
// are and what they are before the first step; whether it may do without slots.
struct KeptNames {
  std::string_view optimizer;
  std::vector<std::string_view> slots;
  std::string_view numbers = "";
  std::size_t count = 0;
  double first = 0;
  bool slotless = false;
};

struct ParameterSpec {
  Dtype dtype;
  Shape shape;
  Stream place;
};

class Slots {
 public:
  explicit Slots(const KeptNames& names);
  // Compiled in the library.
  Slots(const Slots&);
  Slots(Slots&&) noexcept;
  Slots& operator=(const Slots&);
  Slots& operator=(Slots&&) noexcept;
  ~Slots();

  const KeptNames& names() const { return names_; }
  // Waits for the outcome of the last step where that is not known.
  Kept* find(std::string_view path);
  // Those that are new; nothing is allocated.
  void merge(KeptMap& fresh);
  // What is kept from now on counts if the outcome says so: if not, numbers become again what they
  // are now, and what is new is forgotten. Whoever looks next finds out.
  void depend_on(std::shared_ptr<const Outcome> outcome);

  nn::StateDict state() const;
  // All slots of a parameter, or none; and no other names.
  void load(const nn::StateDict& state, const Stream& stream);
  // Whether a state was loaded since check() last saw parameters that it fits.
  bool unchecked() const { return loaded_; }
  void check(const std::map<std::string, ParameterSpec, std::less<>>& model);
  // Refuses what is kept of a parameter that has another shape, dtype or place by now.
  void check_fits(const std::string& path, const Kept& kept, const ParameterSpec& parameter) const;

 private:
  void settle() const;

  KeptNames names_;
  mutable KeptMap kept_;
  bool loaded_ = false;
  // Of a step whose outcome is not known yet: it, and what there was before.
  struct Before {
    std::vector<double> numbers;
    bool slots;
  };
  mutable std::shared_ptr<const Outcome> outcome_;
  mutable std::map<std::string, Before, std::less<>> before_;
};

// Refuses a tensor that is not where its parameter is; work on both is ordered.
void check_same_place(std::string_view optimizer, std::string_view what, std::string_view path,
                      const Stream& found, const Stream& parameter);
[[noreturn]] void refuse_shape(std::string_view optimizer, std::string_view what,
                               std::string_view path, const Shape& found, const Shape& parameter);

}  // namespace planck::optim
