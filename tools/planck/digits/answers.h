// What a model answers to all test pictures, and how long it takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>

#include "planck/dist/transport/communicator.h"
#include "tools/planck/digits/model.h"
#include "tools/planck/digits/pictures.h"
#include "tools/planck/digits/verdicts.h"

namespace planck::digits {

inline constexpr std::int64_t kTestBatch = 256;
// Views of each test picture: of a model in training, and of one that is measured, which is shown
// few pictures more often.
inline constexpr std::int64_t kTestViews = 5, kMostViews = 20, kEnoughAnswers = 7200;
constexpr std::int64_t measured_views(std::int64_t pictures) {
  return std::clamp((kEnoughAnswers + pictures - 1) / std::max<std::int64_t>(pictures, 1),
                    kTestViews, kMostViews);
}

struct Answers {
  Verdicts verdicts;
  std::vector<float> logits;          // [views, pictures, classes]
  double microseconds_per_image = 0;  // the median of this worker's batches; 0 without any
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The logits of every worker's batches, which they took in turns, in order.
inline std::vector<float> in_turns(dist::Communicator& workers, std::span<const float> mine,
                                   std::span<const std::size_t> lengths) {
  const auto gathered = gather_all(workers, std::as_bytes(mine));
  std::vector<float> all;
  std::vector<std::size_t> at(gathered.size());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::size_t from = b % gathered.size(), end = all.size();
    all.resize(end + lengths[b]);
    std::memcpy(all.data() + end, gathered[from].data() + at[from], lengths[b] * sizeof(float));
    at[from] += lengths[b] * sizeof(float);
  }
  return all;
}

inline std::vector<std::int32_t> largest_of_rows(std::span<const float> logits, int classes) {
  std::vector<std::int32_t> best;
  for (auto row = logits.begin(); row != logits.end(); row += classes)
    best.push_back(static_cast<std::int32_t>(std::max_element(row, row + classes) - row));
  return best;
}

// Workers take turns; each gets all answers.
template <class D>
Answers answers(Net<D>& net, const ImageSet& set, std::int64_t views, std::uint64_t seed,
                const Stream& stream, dist::Communicator& workers) {
  const auto classes = static_cast<int>(net.options.classes);
  std::vector<float> mine;
  std::vector<std::size_t> lengths;  // of every batch's logits
  std::vector<double> times;         // of batches of the usual size, for each picture
  const std::int64_t usual = std::min(kTestBatch, set.count);
  for (std::int64_t view = 0; view < views; ++view)
    for (std::int64_t first = 0; first < set.count; first += kTestBatch) {
      std::vector<std::int64_t> which(
          static_cast<std::size_t>(std::min(kTestBatch, set.count - first)));
      for (std::size_t i = 0; i < which.size(); ++i)
        which[i] = first + static_cast<std::int64_t>(i);
      const auto turn = static_cast<int>(lengths.size()) % workers.size();
      lengths.push_back(which.size() * static_cast<std::size_t>(classes));
      if (turn != workers.rank()) continue;
      const auto batch = make_batch<D>(
          {set, net.options.side, seed, static_cast<std::uint64_t>(view), net.options.dtype}, which,
          stream);
      const auto begin = std::chrono::steady_clock::now();
      const auto logits = nn::as_dtype(net(batch.pictures), Dtype::f32).template to_vector<float>();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      if (static_cast<std::int64_t>(which.size()) == usual)
        times.push_back(took.count() / static_cast<double>(usual));
      mine.insert(mine.end(), logits.begin(), logits.end());
    }
  auto all = in_turns(workers, mine, lengths);
  auto predicted = largest_of_rows(all, classes);
  return {{set.count, views, classes, set.labels, std::move(predicted)},
          std::move(all),
          median(std::move(times))};
}

}  // namespace planck::digits
