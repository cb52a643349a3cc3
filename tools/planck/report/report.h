// A training run as one page of HTML: curves, models with their errors, confusion matrices, images
// before and after the spatial transformer, mistakes, weights before and after, how it was made.
//
// The page stands alone: style and pictures are inside, there is no script and no reference to
// anything elsewhere. It follows the reader's preference for light or dark and fits a phone. Every
// text is escaped; bytes that are not UTF-8 and control characters become U+FFFD. The markup is
// also well-formed XML. Parts without data are left out, numbers that are not finite are not drawn.
// The same report gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace planck::cli {

struct TrainingReport {
  std::string title, device, weights_sha256;

  struct Curve {
    std::string name;
    std::vector<float> loss, accuracy;  // one per epoch; accuracy is 0 … 1
  };
  std::vector<Curve> curves;

  struct Model {
    std::string name;
    double accuracy, low, high;  // 0 … 1, and its interval
    std::uint64_t bytes;
    double microseconds_per_image;
    std::string answers;  // that changed against the first model: "+3 -4"
  };
  std::vector<Model> models;
  std::vector<std::string> findings;  // sentences

  struct Confusion {
    std::string name;
    int classes;
    std::vector<std::int64_t> counts;  // [classes, classes]: by label, and by what was read
  };
  std::vector<Confusion> confusions;

  struct Pair {
    std::int64_t height, width;
    std::vector<float> before, after;  // [height, width], 0 … 1
    int label, predicted;
    std::string note;
  };
  std::vector<Pair> examples, mistakes;
  std::string misread;  // how many there are in all, as a sentence without its full stop

  struct Histogram {
    std::string name;
    std::vector<float> before, after;  // the weights themselves
  };
  std::vector<Histogram> weights;

  std::vector<std::pair<std::string, std::string>> facts;  // how it was made: command, machine, …
};

std::string report_html(const TrainingReport& report);

}  // namespace planck::cli
