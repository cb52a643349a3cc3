#include "planck/dist/meeting.h"

#include <fmt/format.h>

#include <cstring>

#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/dist/all_reduce.h"

namespace planck::dist {

struct Meeting::Member {
  Meeting* meeting;
  std::size_t index;  // among the worker's grains
  Member* outer;
  static inline constinit thread_local Member* here = nullptr;

  Member(Meeting& m, std::size_t i) : meeting(&m), index(i), outer(here) { here = this; }
  Member(const Member&) = delete;
  ~Member() { here = outer; }
};

Meeting::Meeting(Communicator& workers) : workers_(workers.host().duplicate()) {}
Meeting::~Meeting() = default;

namespace {
constinit thread_local bool run_apart = false;
}
void Meeting::grains_run_apart(bool apart) { run_apart = apart; }

Meeting* Meeting::current() {
  if (Member::here == nullptr && run_apart)
    raise(ErrorCode::invalid_problem,
          "meeting: grains run one after the other; a model with synchronized layers is given to "
          "DataParallel together with its loss");
  return Member::here == nullptr ? nullptr : Member::here->meeting;
}

void Meeting::run(const Grains& grains, const GrainWork& work) {
  const Range share = grains.share(workers_->rank());
  const auto count = static_cast<std::size_t>(share.count());
  grains_ = &grains, work_ = &work, first_ = share.first;
  requests_.assign(count, {});
  turn_ = 0, failed_ = nullptr;
  if (count == 0) {
    while (settle() != Kind::end) {
    }
    return;
  }
  while (threads_.size() + 1 < count) threads_.push_back(std::make_unique<Courier>(true));
  for (std::size_t i = 1; i < count; ++i) threads_[i - 1]->give([this, i] { be(i); });
  be(0);
  for (std::size_t i = 1; i < count; ++i) threads_[i - 1]->wait();
  if (failed_) std::rethrow_exception(failed_);
}

// One grain, from its first turn to its last. What it throws is kept: run() throws the first.
void Meeting::be(std::size_t index) {
  try {
    wait_for_turn(index);
    const Member member(*this, index);
    work_->run(first_ + static_cast<std::int64_t>(index));
    requests_[index] = {.wanted = {.kind = Kind::end}};
    if (index + 1 == requests_.size()) settle();
    std::lock_guard lock(mutex_);
    ++turn_;
  } catch (...) {
    fail();
  }
  changed_.notify_all();
}

void Meeting::fail() {
  std::lock_guard lock(mutex_);
  if (!failed_) failed_ = std::current_exception();
}

void Meeting::wait_for_turn(std::size_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || turn_ == index; });
  if (failed_) raise(ErrorCode::device, "meeting: another grain failed");
}

void Meeting::ask(const Request& request) {
  const std::size_t index = Member::here->index, count = requests_.size();
  const std::int64_t grain = first_ + static_cast<std::int64_t>(index);
  requests_[index] = request;
  if (count > 1) work_->pauses(grain);
  if (index + 1 == count) settle();
  {
    std::lock_guard lock(mutex_);
    turn_ = (index + 1) % count;
  }
  changed_.notify_all();
  wait_for_turn(index);
  if (count > 1) work_->goes_on(grain);
}

void Meeting::sum(void* numbers, std::int64_t count, Dtype dtype) {
  ask({{Kind::array, dtype, count}, 0, numbers});
}
std::int64_t Meeting::total(std::int64_t number) {
  ask({{.kind = Kind::number}, number, nullptr});
  return requests_[Member::here->index].number;
}

std::string Meeting::Wanted::text() const {
  if (kind == Kind::end) return "ends";
  if (kind == Kind::number) return "asks for a whole number";
  return fmt::format("asks for a sum of {} {}", count, name(dtype));
}

// What this worker's grains ask for, and their numbers added up.
Meeting::Request Meeting::agreed_here() const {
  Request all;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Wanted &first = requests_[0].wanted, &wanted = requests_[i].wanted;
    if (wanted != first)
      raise(ErrorCode::invalid_problem,
            fmt::format("meeting: grain {} {}, grain {} {}; all must ask for the same", first_,
                        first.text(), first_ + static_cast<std::int64_t>(i), wanted.text()));
    all.wanted = first;
    all.number += requests_[i].number;
  }
  return all;
}

Meeting::Kind Meeting::settle() {
  struct Header {
    Wanted wanted;
    std::int64_t number = 0;
  };
  const Request here = agreed_here();
  const Header mine{here.wanted, here.number};
  std::vector<Header> all(static_cast<std::size_t>(workers_->size()));
  workers_->all_gather(&mine, sizeof mine, all.data());
  Wanted agreed;
  int from = 0;  // the first worker that has a grain
  std::int64_t number = 0;
  for (int w = 0; w < workers_->size(); ++w) {
    const Header& h = all[static_cast<std::size_t>(w)];
    if (h.wanted.kind == Kind::nothing) continue;
    if (agreed.kind == Kind::nothing) agreed = h.wanted, from = w;
    if (h.wanted != agreed)
      raise(ErrorCode::invalid_problem,
            fmt::format("meeting: worker {} {}, worker {} {}; all must ask for the same", from,
                        agreed.text(), w, h.wanted.text()));
    number += h.number;
  }
  for (Request& r : requests_) r.number = number;
  if (agreed.kind == Kind::array) add_up(agreed);
  return agreed.kind;
}

void Meeting::add_up(const Wanted& wanted) {
  const std::size_t bytes = bytes_for(wanted.dtype, wanted.count);
  const Stream host = Stream::cpu(1);
  const auto& ranges = grains_->roots(workers_->rank());
  std::vector<std::vector<std::byte>> roots(ranges.size(), std::vector<std::byte>(bytes));
  std::vector<const void*> pointers;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    std::vector<Range> leaves;
    std::vector<const void*> values;
    for (std::int64_t g = ranges[r].first; g < ranges[r].end; ++g) {
      leaves.push_back({g, g + 1});
      values.push_back(requests_[static_cast<std::size_t>(g - first_)].numbers);
    }
    join(add_on_host, host, joining_of(leaves, grains_->count()), values, roots[r].data(),
         wanted.count, wanted.dtype);
    pointers.push_back(roots[r].data());
  }
  std::vector<std::byte> sum(bytes);
  AllReduce reduce(*workers_);
  reduce(*grains_, pointers, sum.data(), wanted.count, wanted.dtype);
  for (const Request& r : requests_)
    if (bytes > 0) std::memcpy(r.numbers, sum.data(), bytes);
}

}  // namespace planck::dist
