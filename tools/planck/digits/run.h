// The run for one backend; run.cpu.cpp and run.cuda.cpp instantiate it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "planck/dist/data_parallel.h"
#include "planck/train/step.h"
#include "tools/planck/digits/measure.h"

namespace planck::digits {

template <class D>
class Run {
 public:
  using A = Autodiff<D>;

  Run(const RunOptions& options, const ImageData& data, const Stream& stream,
      dist::Communicator& workers, const Watch& watch)
      : options_(options),
        data_(data),
        net_options_{options.side, data.train.classes, options.math, options.dtype},
        stream_(net_options_.on(stream)),
        workers_(workers),
        parallel_(workers, {.balance = true}),
        watch_(watch),
        fingerprint_(options.fingerprint(data)),
        stages_(stages(options)) {}

  Outcome operator()() {
    if (!options_.checkpoint.empty()) now_ = found_snapshot();
    now_.curves.resize(stages_.size());
    while (now_.stage < stages_.size()) train(stages_[now_.stage]);
    return outcome();
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
    calibrate<D>(net, stage.form, data_.train, options_, stream_);
    return net;
  }
  Sampling training(std::uint64_t epoch) const {
    return {data_.train, options_.side, options_.seed, epoch, options_.dtype};
  }

  void train(const Stage& stage) {
    optim::Adam<A> adam({.rate = stage.rate, .weight_decay = 0.01});
    optim::LossScale scale;
    Net<A> net = now_.epoch > 0 ? make_net<A>(net_options_, stage.form, stream_) : first_net(stage);
    if (now_.epoch > 0) {
      nn::load_state(net, now_.model);
      adam.load_state(now_.optimizer, stream_);
      if (scaled()) scale.load_state(now_.loss_scale);
    }
    train::Step step(net, adam,
                     [&](const train::Grain& grain, const Tensor<A>& pictures, const auto& labels) {
                       return loss_of(net, pictures, labels, grain.batch);
                     },
                     {.highest_norm = 1.0,
                      .loss_scale = scaled() ? &scale : nullptr,
                      .check_loss = true,
                      .grain = options_.grain,
                      .side_by_side = true});
    Curve& curve = now_.curves[now_.stage];
    for (; now_.epoch < stage.epochs; ++now_.epoch) {
      nn::train(net);
      const auto [loss, seconds, waits] = workers_.size() == 1
                                              ? epoch_alone(stage, net, adam, step)
                                              : shared_epoch(stage, net, adam, scale);
      if (stage.form.kind == Form::Kind::floats) {
        // What happens once, as kernels are loaded and steps recorded, is in the first epoch, which
        // counts where there is no other.
        if (timed_epochs_++ == 1)
          trained_images_ = 0, training_seconds_ = waited_seconds_ = communication_seconds_ = 0;
        trained_images_ += data_.train.count;
        training_seconds_ += seconds;
        for (const double s : waits) waited_seconds_ += s;
        for (const double s : least_of_workers(waits)) communication_seconds_ += s;
      }
      curve.loss.push_back(loss);
      curve.accuracy.push_back(tested(stage.form, nn::state(net)));
      now_.model = nn::state(net);
      now_.optimizer = adam.state();
      if (scaled()) now_.loss_scale = scale.state();
      if (now_.epoch + 1 < stage.epochs) save(now_.epoch + 1);
    }
    now_.finished.push_back(nn::state(net));
    ++now_.stage;
    now_.epoch = 0;
    save(0);
  }

  struct Epoch {
    double loss, seconds;
    std::vector<double> waits;  // seconds of each step that this worker waited for others
  };
  // Of each step. The worker that came last had nothing but bytes to wait for.
  std::vector<double> least_of_workers(const std::vector<double>& waits) {
    const auto n = static_cast<std::size_t>(workers_.size());
    std::vector<double> all(n * waits.size()), least = waits;
    workers_.host().all_gather(waits.data(), waits.size() * sizeof(double), all.data());
    for (std::size_t i = 0; i < all.size(); ++i)
      least[i % waits.size()] = std::min(least[i % waits.size()], all[i]);
    return least;
  }
  // Gradients of f16 would vanish without.
  bool scaled() const { return options_.dtype == Dtype::f16; }
  double rate(const Stage& stage, std::int64_t step, std::int64_t per_epoch) const {
    return stage.rate * optim::warm_up(step, per_epoch) *
           optim::cosine(step, stage.epochs * per_epoch, 0.01);
  }

  // Without others: steps on pictures that are on the device, whose losses the host reads when the
  // epoch ends; on the CPU they are there at once.
  template <class Step>
  Epoch epoch_alone(const Stage& stage, Net<A>& net, optim::Adam<A>& adam, Step& step) {
    constexpr std::int64_t kAtOnce = 4096;  // pictures that are distorted in one go
    if (!pictures_) pictures_.emplace(data_.train, stream_);
    const bool on_cpu = stream_.device().kind == DeviceKind::cpu;
    const auto begin = Clock::now();
    const auto epoch = static_cast<std::uint64_t>(now_.epoch) + 1;  // 0 calibrates
    const auto order = shuffled(data_.train.count, options_.seed, epoch);
    const auto batches = value_or_throw(Batches::create(order, options_.batch));
    const std::int64_t count = batches.count(), batch = options_.batch,
                       at_once = std::max<std::int64_t>(1, kAtOnce / batch) * batch;
    std::vector<Tensor<D>> losses;
    std::optional<Batch<D>> seen;
    double sum = 0;
    try {
      for (std::int64_t b = 0; b < count; ++b) {
        const std::int64_t first = b * batch % at_once,
                           n = static_cast<std::int64_t>(batches[b].size());
        if (first == 0) {
          const auto rest = std::span(order).subspan(static_cast<std::size_t>(b * batch));
          seen = pictures_->batch(
              training(epoch),
              rest.first(std::min(rest.size(), static_cast<std::size_t>(at_once))));
        }
        adam.options.rate = rate(stage, now_.epoch * count + b, count);
        losses.push_back(step(nn::constant<A>(slice(seen->pictures, 0, first, first + n)),
                              nn::constant<A>(slice(seen->labels, 0, first, first + n))));
        if (on_cpu) {
          sum += losses.back().template item<double>();
          watch(stage, b + 1, count, sum / static_cast<double>(b + 1), since(begin), 0);
        }
      }
      if (!on_cpu) {
        for (const double loss : stack(losses).template to_vector<double>()) sum += loss;
        watch(stage, count, count, sum / static_cast<double>(count), since(begin), 0);
      }
    } catch (const Exception& e) {
      if (e.code() != ErrorCode::not_a_number) throw;
      blame(stage, net, epoch, batches, losses);
      throw;
    }
    return {sum / static_cast<double>(count), since(begin),
            std::vector<double>(static_cast<std::size_t>(count))};
  }
  // No step has changed anything since the one whose loss is no number.
  void blame(const Stage& stage, Net<A>& net, std::uint64_t epoch, const Batches& batches,
             const std::vector<Tensor<D>>& losses) const {
    std::int64_t bad = 0;
    for (const auto& loss : losses) {
      if (!std::isfinite(loss.template item<double>())) break;
      ++bad;
    }
    refuse_losses(at(stage, epoch, batches.count(), bad), net, epoch, batches[bad]);
  }
  static std::string at(const Stage& stage, std::uint64_t epoch, std::int64_t per_epoch,
                        std::int64_t in_epoch) {
    const auto before = static_cast<std::int64_t>(epoch - 1) * per_epoch;
    return fmt::format("{}, epoch {}, step {}", stage.name, epoch, before + in_epoch + 1);
  }
  void watch(const Stage& stage, std::int64_t done, std::int64_t per_epoch, double loss,
             double seconds, double waited) const {
    const auto& known = now_.curves[now_.stage].accuracy;
    watch_({stage, now_.epoch, now_.epoch * per_epoch + done, stage.epochs * per_epoch, loss,
            known.empty() ? 0 : known.back(), static_cast<double>(done * options_.batch) / seconds,
            waited});
  }

  Epoch shared_epoch(const Stage& stage, Net<A>& net, optim::Adam<A>& adam,
                     optim::LossScale& scale) {
    const auto begin = Clock::now();
    const auto epoch = static_cast<std::uint64_t>(now_.epoch) + 1;
    const auto batches = value_or_throw(
        Batches::create(shuffled(data_.train.count, options_.seed, epoch), options_.batch));
    const auto per_epoch = batches.count();
    double sum = 0, waited = 0;
    std::vector<double> waits;
    std::int64_t in_epoch = 0;
    for (const std::span<const std::int64_t> which : batches) {
      const auto grain = static_cast<std::size_t>(options_.grain);
      const auto samples = static_cast<std::int64_t>(which.size());
      const auto grains = static_cast<std::int64_t>((which.size() + grain - 1) / grain);
      const double factor = scaled() ? scale.value() : 1;
      const auto of_grain = [&](std::int64_t g) {
        const auto part = which.subspan(static_cast<std::size_t>(g) * grain);
        return part.first(std::min(part.size(), grain));
      };
      const auto found = parallel_(net, grains, [&](std::int64_t g) {
        const auto part = make_batch<D>(training(epoch), of_grain(g), stream_);
        const auto loss =
            loss_of(net, nn::constant<A>(part.pictures), nn::constant<A>(part.labels), samples);
        return scaled() ? scale(loss) : loss;
      });
      if (!std::isfinite(found.loss)) {
        const std::string where = at(stage, epoch, per_epoch, in_epoch);
        refuse_losses(where, net, epoch, which);
        refuse("{}: the loss is {}, those of its pictures are finite",
               {where, found.loss / factor});
      }
      adam.options.rate = rate(stage, now_.epoch * per_epoch + in_epoch, per_epoch);
      if (scaled())
        scale.step(adam, net, found.gradients, 1.0);
      else
        adam.step(net, found.gradients, optim::clip(found.gradients, 1.0));
      sum += found.loss / factor;
      waits.push_back(found.seconds_waited);
      waited += found.seconds_waited;
      ++in_epoch;
      watch(stage, in_epoch, per_epoch, sum / static_cast<double>(in_epoch), since(begin), waited);
    }
    return {sum / static_cast<double>(per_epoch), since(begin), waits};
  }

  // What some pictures add to the loss of a batch.
  static Tensor<A> loss_of(Net<A>& net, const Tensor<A>& pictures, const Tensor<A, IntKind>& labels,
                           std::int64_t batch) {
    return planck::sum(cross_entropy(nn::widened(net(pictures)), labels)) *
           (1 / static_cast<double>(batch));
  }
  // Of a step whose loss is no number, before it changes anything: names the picture.
  void refuse_losses(const std::string& at, Net<A>& net, std::uint64_t epoch,
                     std::span<const std::int64_t> batch) const {
    const NoGrad no_graph;
    const auto grain = static_cast<std::size_t>(options_.grain);
    for (std::size_t first = 0; first < batch.size(); first += grain) {
      const auto which = batch.subspan(first, std::min(grain, batch.size() - first));
      const auto part = make_batch<D>(training(epoch), which, stream_);
      const auto losses = cross_entropy(nn::widened(net(nn::constant<A>(part.pictures))),
                                        nn::constant<A>(part.labels));
      const auto each = nn::as_dtype(losses, Dtype::f64).template to_vector<double>();
      for (std::size_t i = 0; i < each.size(); ++i)
        if (!std::isfinite(each[i]))
          refuse("{}: the loss of training picture {}, which is a {}, is {}",
                 {at, which[i], data_.train.labels[static_cast<std::size_t>(which[i])], each[i]});
    }
  }

  // The accuracy of a model in training.
  double tested(const Form& form, const nn::StateDict& state) {
    Net<D> net = load_net<D>({net_options_, form, state}, stream_);
    return answers(net, data_.test, kTestViews, options_.test_seed(), stream_, workers_)
        .verdicts.share();
  }

  void save(std::int64_t epoch) {
    if (options_.checkpoint.empty() || workers_.rank() != 0) return;
    Snapshot s = now_;
    s.epoch = epoch;
    value_or_throw(save_snapshot(options_.checkpoint, s, fingerprint_));
  }

  Outcome outcome() {
    Outcome o =
        Measuring<D>(options_, data_, net_options_, stream_, workers_)(stages_, now_.finished);
    nn::StateDict all;
    for (std::size_t i = 0; i < stages_.size(); ++i)
      all.merge(nn::with_prefix(stages_[i].name + ".", now_.finished[i]));
    o.sha256 = nn::sha256_of(all);
    o.curves = now_.curves;
    if (training_seconds_ > 0)
      o.images_per_second = static_cast<double>(trained_images_) / training_seconds_;
    if (training_seconds_ > 0 && workers_.size() > 1) {
      o.waited = waited_seconds_ / training_seconds_;
      o.communication = communication_seconds_ / training_seconds_;
    }
    return o;
  }

  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const RunOptions& options_;
  const ImageData& data_;
  NetOptions net_options_;
  Stream stream_;
  dist::Communicator& workers_;
  dist::DataParallel<A> parallel_;
  const Watch& watch_;
  std::optional<PicturesThere<D>> pictures_;
  std::string fingerprint_;
  std::vector<Stage> stages_;
  Snapshot now_;
  std::int64_t trained_images_ = 0, timed_epochs_ = 0;
  double training_seconds_ = 0, waited_seconds_ = 0, communication_seconds_ = 0;
};

// What run() and the other commands call, for one backend.
template <class D>
struct On {
  static Outcome run(const RunOptions& options, const ImageData& data, const Stream& stream,
                     dist::Communicator& workers, const Watch& watch);
  static Verdicts verdicts(const StoredNet& net, const ImageSet& set, std::uint64_t seed,
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
Verdicts On<D>::verdicts(const StoredNet& stored, const ImageSet& set, std::uint64_t seed,
                         const Stream& stream) {
  Net<D> net = load_net<D>(stored, stream);
  dist::Alone alone;
  return answers(net, set, measured_views(set.count), seed, stored.options.on(stream), alone)
      .verdicts;
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
  const auto seen = nn::as_dtype(grid_sample(flat, grid), stored.options.dtype);
  return nn::as_dtype(net(seen), Dtype::f32).template to_vector<float>();
}

extern template struct On<Cpu>;
PLANCK_IF_CUDA(extern template struct On<Cuda>;)

}  // namespace planck::digits
