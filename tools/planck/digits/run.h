// The run for one backend; run.cpu.cpp and run.cuda.cpp instantiate it.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cstring>

#include "planck/balanced.h"
#include "planck/data/batches.h"
#include "planck/dist/data_parallel.h"
#include "tools/planck/digits/pictures.h"
#include "tools/planck/digits/training.h"

namespace planck::digits {

inline constexpr std::int64_t kTestBatch = 256, kTestDistortions = 5, kCalibrationBatches = 8;

// The logits of all test pictures, several distortions of each: [pictures, classes] row by row.
template <class D>
struct Answers {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  std::int64_t classes = 0;
  double seconds = 0;      // of what this worker did
  std::int64_t timed = 0;  // pictures

  double accuracy() const {
    std::int64_t right = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) right += best(i) == labels[i];
    return static_cast<double>(right) / static_cast<double>(labels.size());
  }
  int best(std::size_t row) const {
    const float* first = logits.data() + static_cast<std::int64_t>(row) * classes;
    return static_cast<int>(std::max_element(first, first + classes) - first);
  }
};

// Workers take turns; each gets all logits.
template <class D>
Answers<D> answers(Net<D>& net, const ImageSet& set, std::uint64_t seed, const Stream& stream,
                   dist::Communicator& workers) {
  Answers<D> all;
  all.classes = net.options.classes;
  std::vector<float> mine;
  std::vector<std::size_t> lengths;  // of every batch's logits
  for (std::int64_t view = 0; view < kTestDistortions; ++view)
    for (std::int64_t first = 0; first < set.count; first += kTestBatch) {
      std::vector<std::int64_t> which(
          static_cast<std::size_t>(std::min(kTestBatch, set.count - first)));
      for (std::size_t i = 0; i < which.size(); ++i)
        which[i] = first + static_cast<std::int64_t>(i);
      for (const std::int64_t i : which)
        all.labels.push_back(set.labels[static_cast<std::size_t>(i)]);
      const auto turn = static_cast<int>(lengths.size()) % workers.size();
      lengths.push_back(which.size() * static_cast<std::size_t>(all.classes));
      if (turn != workers.rank()) continue;
      const auto batch = make_batch<D>(
          {set, net.options.side, seed, static_cast<std::uint64_t>(view)}, which, stream);
      const auto begin = std::chrono::steady_clock::now();
      const auto logits = net(batch.pictures).template to_vector<float>();
      all.seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      all.timed += static_cast<std::int64_t>(which.size());
      mine.insert(mine.end(), logits.begin(), logits.end());
    }
  const auto gathered = gather_all(workers, std::as_bytes(std::span(mine)));
  std::vector<std::size_t> at(gathered.size());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::size_t from = b % gathered.size(), end = all.logits.size();
    all.logits.resize(end + lengths[b]);
    std::memcpy(all.logits.data() + end, gathered[from].data() + at[from],
                lengths[b] * sizeof(float));
    at[from] += lengths[b] * sizeof(float);
  }
  return all;
}

template <class D>
class Run {
 public:
  using A = Autodiff<D, BalancedCheckpointing>;

  Run(const RunOptions& options, const ImageData& data, const Stream& stream,
      dist::Communicator& workers, const Watch& watch)
      : options_(options),
        data_(data),
        stream_(NetOptions{.math = options.math}.on(stream)),
        workers_(workers),
        parallel_(workers),
        watch_(watch),
        net_options_{options.side, data.train.classes, options.math},
        fingerprint_(options.fingerprint(data)),
        stages_(stages(options)) {}

  Outcome operator()() {
    if (!options_.checkpoint.empty()) now_ = found_snapshot();
    now_.curves.resize(stages_.size());
    while (now_.stage < stages_.size()) train(stages_[now_.stage]);
    return measure();
  }

 private:
  // What the first worker has in its file, on all of them.
  Snapshot found_snapshot() {
    Snapshot found;
    if (workers_.rank() == 0)
      found = value_or_throw(read_snapshot(options_.checkpoint, fingerprint_, stages_.size()));
    found.curves.resize(stages_.size());
    return snapshot_of(dist::broadcast(workers_, state_of(found)), stages_.size());
  }
  // The stage's model as it starts: new, or the float model rounded by what calibration saw.
  Net<A> first_net(const Stage& stage) {
    Net<A> net = make_net<A>(net_options_, {}, stream_);
    if (stage.form.kind == Form::Kind::floats) return net;
    nn::load_state(net, now_.finished[0]);
    calibrate(net, stage.form);
    return net;
  }
  template <class B>
  void calibrate(Net<B>& net, const Form& form) {
    nn::prepare_qat(net, form.quantization());
    const auto order = shuffled(data_.train.count, options_.seed, 0);
    for (std::int64_t i = 0; i < kCalibrationBatches; ++i) {
      const auto part = std::span(order).subspan(
          static_cast<std::size_t>(i * options_.batch % data_.train.count));
      const auto which =
          part.first(std::min(part.size(), static_cast<std::size_t>(options_.batch)));
      const auto batch =
          make_batch<D>({data_.train, options_.side, options_.seed, 0}, which, stream_);
      (void)net(nn::constant<B>(batch.pictures));
    }
    nn::start_quantizing(net);
  }

  void train(const Stage& stage) {
    optim::Adam<A> adam({.rate = stage.rate, .weight_decay = 0.01});
    Net<A> net = now_.epoch > 0 ? make_net<A>(net_options_, stage.form, stream_) : first_net(stage);
    if (now_.epoch > 0) {
      nn::load_state(net, now_.model);
      adam.load_state(now_.optimizer, stream_);
    }
    Curve& curve = now_.curves[now_.stage];
    for (; now_.epoch < stage.epochs; ++now_.epoch) {
      const auto [loss, seconds, waited] = train_epoch(stage, net, adam);
      if (stage.form.kind == Form::Kind::floats) {
        trained_images_ += data_.train.count;
        training_seconds_ += seconds;
        waited_seconds_ += waited;
      }
      curve.loss.push_back(loss);
      curve.accuracy.push_back(tested(stage.form, nn::state(net)).accuracy());
      now_.model = nn::state(net);
      now_.optimizer = adam.state();
      if (now_.epoch + 1 < stage.epochs) save(now_.epoch + 1);
    }
    now_.finished.push_back(nn::state(net));
    ++now_.stage;
    now_.epoch = 0;
    save(0);
  }

  struct Epoch {
    double loss, seconds, waited;
  };
  Epoch train_epoch(const Stage& stage, Net<A>& net, optim::Adam<A>& adam) {
    nn::train(net);
    const auto begin = std::chrono::steady_clock::now();
    const auto epoch = static_cast<std::uint64_t>(now_.epoch) + 1;  // 0 calibrates
    const auto batches = value_or_throw(
        Batches::create(shuffled(data_.train.count, options_.seed, epoch), options_.batch));
    const auto per_epoch = batches.count();
    double sum = 0, waited = 0;
    std::int64_t in_epoch = 0;
    for (const std::span<const std::int64_t> which : batches) {
      const auto grain = static_cast<std::size_t>(options_.grain);
      const double share = 1 / static_cast<double>(which.size());
      const auto grains = static_cast<std::int64_t>((which.size() + grain - 1) / grain);
      auto found = parallel_(net, grains, [&](std::int64_t g) {
        const auto part = which.subspan(static_cast<std::size_t>(g) * grain);
        const auto batch = make_batch<D>({data_.train, options_.side, options_.seed, epoch},
                                         part.first(std::min(part.size(), grain)), stream_);
        const auto logits = net(nn::constant<A>(batch.pictures));
        return planck::sum(cross_entropy(logits, nn::constant<A>(batch.labels))) * share;
      });
      optim::clip_norm(found.gradients, 1.0);
      const std::int64_t step = now_.epoch * per_epoch + in_epoch, steps = stage.epochs * per_epoch;
      adam.options.rate =
          stage.rate * optim::warm_up(step, per_epoch) * optim::cosine(step, steps, 0.01);
      adam.step(net, found.gradients);
      sum += found.loss;
      waited += found.seconds_waited;
      ++in_epoch;
      const auto& known = now_.curves[now_.stage].accuracy;
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      watch_({stage, now_.epoch, step + 1, steps, sum / static_cast<double>(in_epoch),
              known.empty() ? 0 : known.back(),
              static_cast<double>(in_epoch * options_.batch) / seconds, waited});
    }
    return {sum / static_cast<double>(per_epoch),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
            waited};
  }

  Answers<D> tested(const Form& form, const nn::StateDict& state) {
    Net<D> net = load_net<D>({net_options_, form, state}, stream_);
    return answers(net, data_.test, options_.seed + 1, stream_, workers_);
  }

  void save(std::int64_t epoch) {
    if (options_.checkpoint.empty() || workers_.rank() != 0) return;
    Snapshot s = now_;
    s.epoch = epoch;
    value_or_throw(save_snapshot(options_.checkpoint, s, fingerprint_));
  }

  void add(Outcome& outcome, std::string name, const StoredNet& net, const Answers<D>& a) {
    outcome.models.push_back({std::move(name), net.form, a.accuracy(), nn::bytes_of(net.state),
                              a.timed > 0 ? a.seconds / static_cast<double>(a.timed) * 1e6 : 0});
  }

  Outcome measure() {
    Outcome outcome;
    const StoredNet floats{net_options_, {}, now_.finished[0]};
    add(outcome, "float", floats, tested({}, floats.state));
    outcome.float_and_integers.push_back(floats);
    for (const Dtype dtype : {Dtype::s8, Dtype::s4})  // after training
      for (const auto weights : {Granularity::per_tensor, Granularity::per_channel}) {
        const Form rounded{Form::Kind::rounded, dtype, weights, false};
        Net<D> net = load_net<D>(floats, stream_);
        calibrate(net, rounded);
        const auto integer = converted(outcome, net, rounded);
        add(outcome, fmt::format("after training, {}", name_of(integer.form)), integer,
            tested(integer.form, integer.state));
      }
    for (std::size_t i = 1; i < stages_.size(); ++i) {  // in the loop
      const Form& rounded = stages_[i].form;
      Net<D> net = load_net<D>({net_options_, rounded, now_.finished[i]}, stream_);
      const auto integer = converted(outcome, net, rounded);
      add(outcome, fmt::format("in training, {}", name_of(integer.form)), integer,
          tested(integer.form, integer.state));
      outcome.float_and_integers.push_back(integer);
    }
    nn::StateDict all;
    for (std::size_t i = 0; i < stages_.size(); ++i)
      all.merge(nn::with_prefix(stages_[i].name + ".", now_.finished[i]));
    outcome.sha256 = nn::sha256_of(all);
    outcome.curves = now_.curves;
    if (training_seconds_ > 0) {
      outcome.images_per_second = static_cast<double>(trained_images_) / training_seconds_;
      outcome.waited = waited_seconds_ / training_seconds_;
    }
    look(outcome, floats);
    return outcome;
  }
  static std::string name_of(const Form& form) {
    return fmt::format("{} {}", planck::name(form.dtype),
                       form.weights == Granularity::per_tensor ? "per tensor" : "per channel");
  }
  // The integer model of a rounded one; every logit of both is compared.
  StoredNet converted(Outcome& outcome, Net<D>& rounded, const Form& form) {
    nn::eval(rounded);
    const auto before = answers(rounded, data_.test, options_.seed + 1, stream_, workers_);
    nn::convert(rounded);
    const auto after = answers(rounded, data_.test, options_.seed + 1, stream_, workers_);
    outcome.integers_equal &=
        std::equal(before.logits.begin(), before.logits.end(), after.logits.begin(),
                   after.logits.end(), [](float a, float b) {
                     return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
                   });
    Form integers = form;
    integers.kind = Form::Kind::integers;
    return {net_options_, integers, nn::state(rounded)};
  }
  // Some test pictures before and after the spatial transformer.
  void look(Outcome& outcome, const StoredNet& floats) {
    constexpr std::int64_t kShown = 12;
    Net<D> net = load_net<D>(floats, stream_);
    std::vector<std::int64_t> which;
    for (std::int64_t i = 0; i < std::min(kShown, data_.test.count); ++i) which.push_back(i);
    const auto batch =
        make_batch<D>({data_.test, options_.side, options_.seed + 1, 0}, which, stream_);
    const auto seen = net.upright(batch.pictures);
    const auto best = argmax(net.classify(seen), 1).template to_vector<std::int64_t>();
    const auto before = batch.pictures.template to_vector<float>(),
               after = seen.template to_vector<float>();
    const std::int64_t pixels = options_.side * options_.side;
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) * pixels;
      outcome.pairs.push_back({{before.begin() + at, before.begin() + at + pixels},
                               {after.begin() + at, after.begin() + at + pixels},
                               data_.test.labels[i],
                               static_cast<int>(best[i])});
    }
  }

  const RunOptions& options_;
  const ImageData& data_;
  Stream stream_;
  dist::Communicator& workers_;
  dist::DataParallel<A> parallel_;
  const Watch& watch_;
  NetOptions net_options_;
  std::string fingerprint_;
  std::vector<Stage> stages_;
  Snapshot now_;
  std::int64_t trained_images_ = 0;
  double training_seconds_ = 0, waited_seconds_ = 0;
};

// What run() and the other commands call, for one backend.
template <class D>
struct On {
  static Outcome run(const RunOptions& options, const ImageData& data, const Stream& stream,
                     dist::Communicator& workers, const Watch& watch);
  static double accuracy(const StoredNet& net, const ImageSet& set, std::uint64_t seed,
                         const Stream& stream);
  static std::vector<float> logits(const StoredNet& net, const ImageSet& pictures,
                                   const Stream& stream);
};

template <class D>
Outcome On<D>::run(const RunOptions& options, const ImageData& data, const Stream& stream,
                   dist::Communicator& workers, const Watch& watch) {
  return Run<D>(options, data, stream, workers, watch)();
}
template <class D>
double On<D>::accuracy(const StoredNet& stored, const ImageSet& set, std::uint64_t seed,
                       const Stream& stream) {
  Net<D> net = load_net<D>(stored, stream);
  dist::Alone alone;
  return answers(net, set, seed, stored.options.on(stream), alone).accuracy();
}
template <class D>
std::vector<float> On<D>::logits(const StoredNet& stored, const ImageSet& pictures,
                                 const Stream& stream) {
  Net<D> net = load_net<D>(stored, stream);
  const std::int64_t n = pictures.count, side = stored.options.side;
  const auto flat =
      Tensor<D>::from(std::span<const float>(pictures.pixels),
                      {n, 1, pictures.height, pictures.width}, stored.options.on(stream));
  const auto upright = Tensor<D>::from({1.f, 0.f, 0.f, 0.f, 1.f, 0.f}, {1, 2, 3}, stream);
  const auto grid = affine_grid(expand(upright, {n, 2, 3}), {n, 1, side, side});
  return net(grid_sample(flat, grid)).template to_vector<float>();
}

extern template struct On<Cpu>;
extern template struct On<Cuda>;

}  // namespace planck::digits
