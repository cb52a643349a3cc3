// What models read in the same test pictures, and how sure one can be of it.
//
// A picture is shown in several distorted views. Views of one picture are right or wrong together
// more often than by chance, so pictures are counted, not views. With n pictures, a_i the share of
// picture i's views that a model reads right, p their mean:
//
//   error        of an accuracy: e = s / √n, s² = Σ (a_i − p)² / (n − 1)
//   interval     of 95 %: Wilson's, for the number of independent answers that have this error,
//                p (1 − p) / e², at most all views; n where all answers are right, or all are wrong
//   difference   of two models: the mean of a_i − b_i, and 1.96 times its own error
//   chance       that pictures read better and pictures read worse, which are equally likely where
//                the models are equally good, differ this much or more: the two-sided sign test
//
// All of it is about other pictures read with these weights. Another seed trains other weights.
#pragma once

#include <cstdint>
#include <vector>

namespace planck::digits {

// Of one model.
struct Verdicts {
  std::int64_t pictures = 0, views = 0;
  int classes = 0;
  std::vector<std::int32_t> labels;     // [pictures]
  std::vector<std::int32_t> predicted;  // [views, pictures]

  std::int32_t read(std::int64_t view, std::int64_t picture) const {
    return predicted[static_cast<std::size_t>(view * pictures + picture)];
  }
  bool right(std::int64_t view, std::int64_t picture) const {
    return read(view, picture) == labels[static_cast<std::size_t>(picture)];
  }
  std::int64_t answers() const { return views * pictures; }
  double share() const;                           // of right answers
  std::vector<std::int64_t> right_views() const;  // of each picture
};

struct Accuracy {
  double share = 0, error = 0, low = 0, high = 0;  // 0 … 1
  std::int64_t right = 0;                          // answers
};
Accuracy accuracy_of(const Verdicts& verdicts);

// What changes for who takes the second model instead of the first.
struct Comparison {
  double difference = 0, half_width = 0;  // of accuracies, 0 … 1: difference ± half_width
  std::int64_t gained = 0, lost = 0;      // answers
  std::int64_t better = 0, worse = 0;     // pictures with more, and with fewer, right views
  double chance = 1;

  bool beyond_error() const { return chance < 0.05; }
};
Comparison compare(const Verdicts& first, const Verdicts& second);

// [classes, classes]: answers by label (rows) and what was read.
std::vector<std::int64_t> confusion_of(const Verdicts& verdicts);

// One view of each picture that was misread, those with most misread views first.
struct Mistake {
  std::int64_t picture, view, misread;  // the first misread view, and how many there are
};
std::vector<Mistake> mistakes_of(const Verdicts& verdicts);

}  // namespace planck::digits
