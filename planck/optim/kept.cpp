#include "planck/optim/kept.h"

#include "planck/backend/planned.h"
#include "planck/core/refuse.h"
#include "planck/nn/state.h"

namespace planck::optim {

namespace {

constexpr std::string_view kMaster = "master";

std::string prefix(std::string_view name) { return std::string(name) + "."; }

nn::StateEntry entry(const StoredView& t) {
  nn::StateEntry e{t.dtype(), t.shape(),
                   std::vector<std::byte>(bytes_for(t.dtype(), numel(t.shape())))};
  backend_detail::to_host(t, e.bytes.data());
  return e;
}
StoredView tensor(const nn::StateEntry& e, const Stream& stream) {
  return backend_detail::from_host(stream, e.dtype, e.shape, e.bytes.data());
}

[[noreturn]] void refuse_missing(std::string_view optimizer, std::string_view slot,
                                 std::string_view path) {
  refuse("{}: the state of {} lacks {}.{}", {optimizer, path, slot, path});
}

// Calls f(path, entry) for the names that begin with a slot's.
template <class F>
void for_slot(const nn::StateDict& state, std::string_view slot, const F& f) {
  const std::string begin = prefix(slot);
  for (auto at = state.lower_bound(begin); at != state.end() && at->first.starts_with(begin); ++at)
    f(at->first.substr(begin.size()), at->second);
}

}  // namespace

void refuse_shape(std::string_view optimizer, std::string_view what, std::string_view path,
                  const Shape& found, const Shape& parameter) {
  refuse("{}: the {} of {} has shape {}, the parameter {}",
         {optimizer, what, path, found, parameter});
}

void check_same_place(std::string_view optimizer, std::string_view what, std::string_view path,
                      const Stream& found, const Stream& parameter) {
  if (found.device() != parameter.device())
    refuse(ErrorCode::device, "{}: the {} of {} is on {}, the parameter on {}",
           {optimizer, what, path, to_string(found.device()), to_string(parameter.device())});
  if (found.native() != parameter.native())
    refuse(ErrorCode::device, "{}: the {} of {} and the parameter belong to two streams of {}",
           {optimizer, what, path, to_string(found.device())});
}

Slots::Slots(const KeptNames& names) : names_(names) {}
Slots::Slots(const Slots&) = default;
Slots::Slots(Slots&&) noexcept = default;
Slots& Slots::operator=(const Slots&) = default;
Slots& Slots::operator=(Slots&&) noexcept = default;
Slots::~Slots() = default;

void Slots::depend_on(std::shared_ptr<const Outcome> outcome) {
  settle();
  for (const auto& [path, kept] : kept_)
    before_.emplace(path, Before{kept.numbers, !kept.slots.empty()});
  outcome_ = std::move(outcome);
}
void Slots::settle() const {
  if (!outcome_) return;
  const bool counts = outcome_->counts();
  outcome_.reset();
  const auto before = std::exchange(before_, {});
  if (counts) return;
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto old = before.find(at->first);
    if (old == before.end()) {
      at = kept_.erase(at);
      continue;
    }
    at->second.numbers = old->second.numbers;
    if (!old->second.slots) at->second.slots.clear();
    ++at;
  }
}

Kept* Slots::find(std::string_view path) {
  settle();
  const auto at = kept_.find(path);
  return at == kept_.end() ? nullptr : &at->second;
}
void Slots::merge(KeptMap& fresh) { kept_.merge(fresh); }

nn::StateDict Slots::state() const {
  settle();
  nn::StateDict s;
  for (const auto& [path, kept] : kept_) {
    for (std::size_t i = 0; i < kept.slots.size(); ++i)
      s[prefix(names_.slots[i]) + path] = entry(kept.slots[i]);
    if (kept.master) s[prefix(kMaster) + path] = entry(*kept.master);
    if (names_.count > 0)
      s[prefix(names_.numbers) + path] = nn::entry_of(std::span<const double>(kept.numbers));
  }
  return s;
}

void Slots::load(const nn::StateDict& given, const Stream& stream) {
  nn::StateDict state = given;
  if (const auto common = state.find(names_.numbers); common != state.end() && names_.count > 0) {
    // States of before had one step for all parameters.
    for_slot(given, names_.slots[0], [&](const std::string& path, const nn::StateEntry&) {
      state[prefix(names_.numbers) + path] = common->second;
    });
    state.erase(std::string(names_.numbers));
  }
  KeptMap fresh;
  std::size_t used = 0;
  for (std::size_t i = 0; i < names_.slots.size(); ++i)
    for_slot(state, names_.slots[i], [&](const std::string& path, const nn::StateEntry& e) {
      Kept& kept = fresh[path];
      if (kept.slots.size() != i)  // an earlier slot had no such path
        refuse_missing(names_.optimizer, names_.slots[kept.slots.size()], path);
      kept.slots.push_back(tensor(e, stream));
      ++used;
    });
  for_slot(state, kMaster, [&](const std::string& path, const nn::StateEntry& e) {
    fresh[path].master = tensor(e, stream);
    ++used;
  });
  for (auto& [path, kept] : fresh) {
    const bool none = kept.slots.empty() && names_.slotless;
    if (kept.slots.size() != names_.slots.size() && !none)
      refuse_missing(names_.optimizer, names_.slots[kept.slots.size()], path);
    if (names_.count == 0) continue;
    if (!state.contains(prefix(names_.numbers) + path))
      refuse_missing(names_.optimizer, names_.numbers, path);
    kept.numbers = nn::find_numbers(state, prefix(names_.numbers) + path,
                                    static_cast<std::int64_t>(names_.count));
    ++used;
  }
  if (used != state.size())
    for (const auto& [name, e] : state) {
      const auto dot = name.find('.');
      bool known = dot != std::string::npos && fresh.contains(name.substr(dot + 1));
      const std::string_view slot = std::string_view(name).substr(0, dot);
      known = known && (slot == kMaster || (names_.count > 0 && slot == names_.numbers) ||
                        std::ranges::find(names_.slots, slot) != names_.slots.end());
      if (!known)
        refuse("{}: the state has {}, which is none of its slots", {names_.optimizer, name});
    }
  outcome_.reset();
  before_.clear();
  kept_ = std::move(fresh);
  loaded_ = true;
}

void Slots::check(const std::map<std::string, ParameterSpec, std::less<>>& model) {
  for (const auto& [path, kept] : kept_) {
    const auto at = model.find(path);
    if (at == model.end())
      refuse("{}: the state that was loaded is of {}, the model has no such parameter",
             {names_.optimizer, path});
    check_fits(path, kept, at->second);
  }
  loaded_ = false;
}

void Slots::check_fits(const std::string& path, const Kept& kept,
                       const ParameterSpec& parameter) const {
  const auto& [dtype, shape, place] = parameter;
  const auto fits = [&](std::string_view what, const StoredView& t, Dtype wanted) {
    if (t.shape() != shape) refuse_shape(names_.optimizer, what, path, t.shape(), shape);
    if (t.dtype() != wanted)
      refuse("{}: the {} of {} is {}, the parameter {}; it must be {}",
             {names_.optimizer, what, path, t.dtype(), dtype, wanted});
    check_same_place(names_.optimizer, what, path, t.stream(), place);
  };
  if (kept.master && bits(dtype) != 16)
    refuse("{}: the state has master weights of {}, which is {}", {names_.optimizer, path, dtype});
  if (kept.master) fits(kMaster, *kept.master, Dtype::f32);
  for (std::size_t i = 0; i < kept.slots.size(); ++i)
    fits(names_.slots[i], kept.slots[i], kept.master ? Dtype::f32 : dtype);
}

}  // namespace planck::optim
