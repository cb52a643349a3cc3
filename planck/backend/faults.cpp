#include "planck/backend/faults.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>
#include <mutex>

#include "planck/backend/cuda/kernels.h"
#include "planck/backend/planned.h"
#include "planck/backend/side_by_side.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/stream/end.h"
#include "planck/core/stream/recording.h"

namespace planck {

namespace {

using backend_detail::Fault;

// What a check is of, for the message.
struct Checked {
  IndexOperand operand = {};
  Shape shape = {};
  std::string number = {};  // of one that must be finite
};

[[noreturn]] void refuse_number(const std::string& what, double value) {
  raise(ErrorCode::not_a_number, fmt::format("{} is {}", what, value));
}

// The checks of one stream.
class Faults {
 public:
  explicit Faults(const Stream& stream)
      : device_(stream.device()), found_(value_or_throw(allocate(stream, sizeof(Fault)))) {
    value_or_throw(cuda::fill(device_.ordinal, stream.native(), found_.data(), 0, sizeof(Fault)));
  }

  // find(id, fault) queues the kernel that looks.
  template <class Find>
  void note(const Stream& stream, Checked what, const Find& find) {
    std::unique_lock lock(mutex_);
    const auto checked = std::make_shared<const Checked>(std::move(what));
    value_or_throw(find(++last_, fault()));
    if (Recording* recording = Recording::of(stream)) {
      recording->keep(checked);
      std::erase_if(recorded_, [](const auto& c) { return c.second.expired(); });
      recorded_.emplace(last_, checked);
      return;
    }
    run_.emplace_back(last_, checked);
    if (run_.size() < kMost) return;
    lock.unlock();
    check(stream);  // nobody looked for a long time
  }

  void check(const Stream& stream) {
    std::unique_lock lock(mutex_);
    if (Recording::of(stream) != nullptr) return;
    std::erase_if(recorded_, [](const auto& c) { return c.second.expired(); });
    if (run_.empty() && recorded_.empty()) return;
    Fault found;
    value_or_throw(
        cuda::copy_to_host(device_.ordinal, stream.native(), &found, fault(), sizeof found));
    value_or_throw(stream.synchronize());
    const auto checks = std::exchange(run_, {});
    if (found.id == 0) return;
    value_or_throw(cuda::fill(device_.ordinal, stream.native(), fault(), 0, sizeof found));
    std::shared_ptr<const Checked> checked;
    if (const auto at = recorded_.find(found.id); at != recorded_.end())
      checked = at->second.lock();
    for (const auto& [id, of] : checks)
      if (id == found.id) checked = of;
    lock.unlock();
    if (!checked) raise(ErrorCode::invalid_problem, "data of work that was recorded are wrong");
    if (!checked->number.empty()) refuse_number(checked->number, found.number);
    refuse_bad_index(checked->operand, found.count, checked->shape, found.place, found.value,
                     found.least);
  }

  const std::int64_t* veto() const { return &fault()->id; }

 private:
  static constexpr std::size_t kMost = 4096;

  Fault* fault() const { return static_cast<Fault*>(found_.data()); }

  std::mutex mutex_;
  Device device_;
  Buffer found_;
  std::int64_t last_ = 0;
  std::deque<std::pair<std::int64_t, std::shared_ptr<const Checked>>> run_;
  std::map<std::int64_t, std::weak_ptr<const Checked>> recorded_;
};

// By device and stream. Never destroyed: streams outlive static objects.
struct AllFaults {
  std::mutex mutex;
  std::map<std::pair<int, void*>, std::shared_ptr<Faults>> of;
};
AllFaults& all_faults() {
  static auto& all = *new AllFaults;
  return all;
}
std::shared_ptr<Faults> find(const Stream& stream) {
  AllFaults& all = all_faults();
  std::lock_guard lock(all.mutex);
  const auto at = all.of.find({stream.device().ordinal, stream.native()});
  return at == all.of.end() ? nullptr : at->second;
}
// A handle may be another stream's later.
void forget(Device device, void* stream) noexcept {
  AllFaults& all = all_faults();
  std::lock_guard lock(all.mutex);
  all.of.erase({device.ordinal, stream});
}
std::shared_ptr<Faults> find_or_make(const Stream& stream) {
  if (auto found = find(stream)) return found;
  check_not_recorded(stream, "the first check of indices on a stream");
  stream_detail::ended.store(forget);
  auto fresh = std::make_shared<Faults>(stream);
  AllFaults& all = all_faults();
  std::lock_guard lock(all.mutex);
  return all.of.try_emplace({stream.device().ordinal, stream.native()}, std::move(fresh))
      .first->second;
}

}  // namespace

void refuse_bad_later(const IndexOperand& operand, const StoredView& indices,
                      const StoredView& count) {
  const Stream& stream = indices.stream();
  if (stream.device().kind == DeviceKind::cuda) {
    const auto note = [&] {
      find_or_make(stream)->note(
          stream, {operand, indices.shape()}, [&](std::int64_t id, Fault* fault) {
            return backend_detail::find_bad_index_cuda(
                stream,
                {id, indices.view, operand.extent, operand.ignored.value_or(0),
                 operand.ignored.has_value(), operand.ends},
                static_cast<const std::int64_t*>(count.view.data), fault);
          });
    };
    if (Recording* beside = backend_detail::side_by_side(stream))
      return backend_detail::run_beside(*beside, std::array{indices.view, count.view}, {}, nullptr,
                                        note);
    return note();
  }
  const std::int64_t bad = *static_cast<const std::int64_t*>(count.view.data);
  if (bad == 0) return;
  const StoredView dense = backend_detail::contiguous(indices);
  refuse_bad_index(operand, bad, dense.dtype(), dense.shape(),
                   static_cast<const std::byte*>(dense.view.data));
}

void refuse_not_finite_later(std::string what, const StoredView& number) {
  const Stream& stream = number.stream();
  if (stream.device().kind == DeviceKind::cuda)
    return find_or_make(stream)->note(
        stream, {.number = std::move(what)}, [&](std::int64_t id, Fault* fault) {
          return backend_detail::find_not_finite_cuda(stream, id, number.view, fault);
        });
  const double value = number.dtype() == Dtype::f64
                           ? *static_cast<const double*>(number.view.data)
                           : static_cast<double>(*static_cast<const float*>(number.view.data));
  if (!std::isfinite(value)) refuse_number(what, value);
}

void check_faults(const Stream& stream) {
  if (stream.device().kind != DeviceKind::cuda) return;
  if (const auto faults = find(stream)) faults->check(stream);
}

namespace backend_detail {

const std::int64_t* veto(const Stream& stream) {
  if (stream.device().kind != DeviceKind::cuda) return nullptr;
  const auto faults = find(stream);
  return faults ? faults->veto() : nullptr;
}

}  // namespace backend_detail

}  // namespace planck
