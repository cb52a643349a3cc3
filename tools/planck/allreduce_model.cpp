#include "tools/planck/allreduce_model.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace planck::cli {

namespace {

using Clock = std::chrono::steady_clock;

// A place that goes through an array in steps, as an all-reduce does: what is too large for a
// cache comes from memory each time.
class Walk {
 public:
  Walk(std::int64_t bytes, std::int64_t step) : bytes_(bytes), step_(step) {}
  std::int64_t next() {
    const std::int64_t here = at_;
    at_ = at_ + 2 * step_ > bytes_ ? 0 : at_ + step_;
    return here;
  }

 private:
  std::int64_t bytes_, step_, at_ = 0;
};

std::vector<float> numbers(std::int64_t bytes) {
  return std::vector<float>(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 4)) / 4, 1);
}
std::byte* at(std::vector<float>& array, std::int64_t byte) {
  return reinterpret_cast<std::byte*>(array.data()) + byte;
}

}  // namespace

std::vector<double> seconds_of(dist::Communicator& workers, double min_seconds,
                               const std::vector<std::function<void()>>& calls) {
  const auto slowest = [&](double mine) {
    std::vector<double> all(static_cast<std::size_t>(workers.size()));
    workers.all_gather(&mine, sizeof mine, all.data());
    return *std::max_element(all.begin(), all.end());
  };
  const auto timed = [&](const std::function<void()>& call, int times) {
    workers.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) call();
    return slowest(std::chrono::duration<double>(Clock::now() - begin).count() / times);
  };
  constexpr int kRounds = 7;
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  std::vector<int> times;
  for (const auto& call : calls)
    times.push_back(std::clamp(static_cast<int>(min_seconds / kRounds / timed(call, 2)), 1, 10000));
  for (int r = 0; r < kRounds; ++r)
    for (std::size_t c = 0; c < calls.size(); ++c)
      best[c] = std::min(best[c], timed(calls[c], times[c]));
  return best;
}

CostModel::CostModel(dist::Communicator& workers, double min_seconds)
    : workers_(workers),
      min_seconds_(min_seconds),
      piece_(static_cast<std::int64_t>(workers.piece_bytes())),
      segment_(static_cast<std::int64_t>(dist::kSegmentPieces) * piece_),
      latency_(exchange(4, 4)),
      per_byte_(
          std::max(1e-15, (exchange(piece_, piece_) - latency_) / static_cast<double>(piece_ - 4))),
      add_per_byte_(addition(piece_)) {}

double CostModel::measured(const std::function<void()>& call) {
  return seconds_of(workers_, min_seconds_, {call})[0];
}

// One side of each message is a part of the array, the other lies in a cache: what arrives is added
// there, what was added is sent on.
double CostModel::exchange(std::int64_t bytes, std::int64_t array) {
  const auto [known, fresh] = exchanges_.try_emplace({bytes, array}, 0.0);
  if (!fresh) return known->second;
  std::vector<float> whole = numbers(std::max(bytes, array)), part = numbers(bytes);
  Walk walk(std::max(bytes, array), bytes);
  const int partner = workers_.rank() ^ 1;
  std::vector<dist::Outgoing> out;
  std::vector<dist::Incoming> in;
  bool back = false;
  known->second = measured([&] {
    if (partner >= workers_.size()) return;
    out.clear(), in.clear();
    const std::int64_t first = walk.next();
    std::byte *here = at(whole, first), *there = at(part, 0);
    for (std::int64_t i = 0; i < bytes; i += piece_) {
      const auto n = static_cast<std::size_t>(std::min(piece_, bytes - i));
      out.push_back({partner, (back ? there : here) + i, n});
      in.push_back({partner, (back ? here : there) + i, n});
    }
    workers_.exchange(out, in);
    back = !back;
  });
  return known->second;
}

double CostModel::addition(std::int64_t array) {
  const std::int64_t step = std::min(piece_, array);
  std::vector<float> mine = numbers(array), sum = numbers(array), arrived = numbers(step);
  Walk walk(array, step);
  const Stream host = Stream::cpu(1);
  const double seconds = measured([&] {
    const std::int64_t i = walk.next();
    dist::add_on_host(host, Dtype::f32, at(mine, i), arrived.data(), at(sum, i), step / 4);
  });
  return seconds / static_cast<double>(step);
}

double CostModel::predicted(const dist::Grains& grains, dist::Way way, std::int64_t bytes) {
  const std::int64_t w = grains.workers(), roots = grains.most_roots();
  if (w == 1) return 0;
  const double add = addition(bytes);
  if (way == dist::Way::gather)
    return static_cast<double>(w - 1) * exchange(roots * bytes, bytes) +
           static_cast<double>((roots * w - 1) * bytes) * add;
  const std::int64_t segment = std::min(bytes, segment_);
  const auto part = [&](std::int64_t parts) {  // of a segment, in whole numbers
    return std::max<std::int64_t>(4, segment / parts / 4 * 4);
  };
  double of_segment = 0;
  if (way == dist::Way::halving)
    for (std::int64_t apart = 2; apart <= w; apart *= 2)
      of_segment += 2 * exchange(part(apart), bytes) + static_cast<double>(part(apart)) * add;
  else
    of_segment = static_cast<double>((w - 1) * (roots + 1)) * exchange(part(w), bytes) +
                 static_cast<double>((w - 1) * roots * part(w)) * add;
  return of_segment * static_cast<double>(bytes) / static_cast<double>(segment);
}

}  // namespace planck::cli
