// The demo's run: trains the float model, quantizes it after training, trains it again with
// quantization in the loop, converts it to integers, measures all of them.
//
// Everything is a function of the options, not of the device, the number of threads, the number of
// workers or when the run was interrupted: after each epoch its state goes to a file, and a run
// that finds one goes on there, on as many workers as it has.
//
// A batch is cut into grains: its gradient is the canonical sum of theirs (planck/dist/grains.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planck/data/images.h"
#include "planck/dist/transport/communicator.h"
#include "tools/planck/digits/forms.h"
#include "tools/planck/digits/verdicts.h"

namespace planck::digits {

struct RunOptions {
  std::int64_t epochs = 60, qat_epochs = 15, batch = 64, grain = 16, side = 16;
  std::uint64_t seed = 2026;
  Dtype dtype = Dtype::f32;         // of weights and activations that are floats
  std::optional<ProductMath> math;  // of products; none: that of the dtype
  std::string checkpoint;           // path, written by the first worker; "": none

  // Of the distortions of test pictures.
  std::uint64_t test_seed() const { return seed + 1; }
  // What a checkpoint must have been made with.
  std::string fingerprint(const ImageData& data) const;
};

// One part of the run: the float model, or a model trained rounded.
struct Stage {
  std::string name;
  Form form;
  std::int64_t epochs;
  double rate;
};
std::vector<Stage> stages(const RunOptions& options);

struct Curve {
  std::vector<double> loss, accuracy;  // one per epoch
};

// A run so far.
struct Snapshot {
  std::size_t stage = 0;
  std::int64_t epoch = 0;               // of the stage, done
  nn::StateDict model, optimizer;       // of the stage, where epoch > 0
  nn::StateDict loss_scale;             // of f16, likewise
  std::vector<nn::StateDict> finished;  // models of the stages before
  std::vector<Curve> curves;            // one per stage
};
// As one state, and back; a state of something else is refused.
nn::StateDict state_of(const Snapshot& snapshot);
Snapshot snapshot_of(const nn::StateDict& state, std::size_t stages);
[[nodiscard]] Result<void> save_snapshot(const std::string& path, const Snapshot& snapshot,
                                         const std::string& fingerprint);
// Refuses a file of another run, naming both.
[[nodiscard]] Result<Snapshot> read_snapshot(const std::string& path,
                                             const std::string& fingerprint, std::size_t stages);

// What the run says while it goes.
struct Step {
  const Stage& stage;
  std::int64_t epoch, step, steps;  // steps of the whole stage
  double loss, accuracy;            // of this epoch so far; of the last one
  double images_per_second;         // of all workers
  double waited;                    // seconds of this epoch that this worker waited for others
};
using Watch = std::function<void(const Step&)>;

struct Measured {
  std::string name;
  Form form;
  Verdicts verdicts;  // on distorted test pictures
  std::uint64_t bytes = 0;
  double microseconds_per_image = 0;
};
struct SeenPair {  // a picture before and after the spatial transformer
  std::vector<float> before, after;
  int label = 0;
  // By the float model and those on integers, as they are in the outcome.
  std::vector<int> read;
  std::int64_t misread = 0;  // by the float model: of all views of the picture
};
// Microseconds per picture of all layers that can be quantized, as floats and as s8, bias included;
// of their products alone; and of rounding inputs.
struct LayerCosts {
  double floats = 0, float_products = 0, integers = 0, integer_products = 0, rounding = 0;
};
struct Outcome {
  std::vector<Measured> models;
  std::vector<StoredNet> float_and_integers;  // the float model, then those of the rounded stages
  std::vector<std::size_t> measured;          // where those are among the models
  std::vector<Curve> curves;
  std::vector<SeenPair> examples, mistakes;  // the first test pictures; those most often misread
  std::int64_t misread_pictures = 0;         // by the float model, in one view or more
  LayerCosts costs;
  bool integers_equal = true;  // every logit of integer and rounded models, bit for bit
  // Of float training, all workers together, but for the first epoch of several.
  double images_per_second = 0;
  // Shares of the time of float training: that this worker waited for others; that all of them
  // waited for bytes alone, since the last of them had done its part of the step.
  double waited = 0, communication = 0;
  std::string sha256;  // of all trained weights
};

// On Stream::cpu or a CUDA stream of each worker; all of them get the outcome. Errors of files and
// devices are thrown as planck::Exception.
Outcome run(const RunOptions& options, const ImageData& data, const Stream& stream,
            dist::Communicator& workers, const Watch& watch);

// What a model reads in the distorted test pictures that models of a run are measured on.
Verdicts verdicts(const StoredNet& net, const ImageSet& set, std::uint64_t seed,
                  const Stream& stream);
// [pictures, classes] row by row, of pictures as they are, seen at the model's side.
std::vector<float> logits(const StoredNet& net, const ImageSet& pictures, const Stream& stream);

}  // namespace planck::digits
