// Measures the models of a run: the float one, it rounded after training, those trained rounded.
#pragma once

#include <fmt/format.h>

#include <bit>

#include "planck/data/batches.h"
#include "tools/planck/digits/answers.h"
#include "tools/planck/digits/layer_costs.h"

namespace planck::digits {

inline constexpr std::int64_t kCalibrationBatches = 8;

// Makes a float model a rounded one, by what it sees in some batches.
template <class D, class B>
void calibrate(Net<B>& net, const Form& form, const ImageSet& set, const RunOptions& options,
               const Stream& stream) {
  nn::prepare_qat(net, form.quantization());
  const auto order = shuffled(set.count, options.seed, 0);
  for (std::int64_t i = 0; i < kCalibrationBatches; ++i) {
    const auto part =
        std::span(order).subspan(static_cast<std::size_t>(i * options.batch % set.count));
    const auto which = part.first(std::min(part.size(), static_cast<std::size_t>(options.batch)));
    const auto batch =
        make_batch<D>({set, options.side, options.seed, 0, options.dtype}, which, stream);
    (void)net(nn::constant<B>(batch.pictures));
  }
  nn::start_quantizing(net);
}

template <class D>
class Measuring {
 public:
  Measuring(const RunOptions& options, const ImageData& data, const NetOptions& net_options,
            const Stream& stream, dist::Communicator& workers)
      : options_(options),
        data_(data),
        net_options_(net_options),
        stream_(stream),
        workers_(workers) {}

  // Of the states that the stages ended with.
  Outcome operator()(const std::vector<Stage>& stages, const std::vector<nn::StateDict>& finished) {
    const StoredNet floats{net_options_, {}, finished[0]};
    const bool usual = options_.dtype == Dtype::f32;
    add(usual ? "float" : std::string(name(options_.dtype)), floats);
    keep(floats);
    for (const Dtype dtype : {Dtype::s8, Dtype::s4})
      for (const auto weights : {Granularity::per_tensor, Granularity::per_channel}) {
        const Form rounded{Form::Kind::rounded, dtype, weights, false};
        Net<D> net = load_net<D>(floats, stream_);
        calibrate<D>(net, rounded, data_.train, options_, stream_);
        add_integers("after", net, rounded);
      }
    for (std::size_t i = 1; i < stages.size(); ++i) {
      Net<D> net = load_net<D>({net_options_, stages[i].form, finished[i]}, stream_);
      keep(add_integers("in", net, stages[i].form));
    }
    if (workers_.rank() == 0) {
      look();
      found_.costs = layer_costs<D>(floats, found_.float_and_integers[1], stream_);
    }
    return std::move(found_);
  }

 private:
  Answers answered(Net<D>& net, std::int64_t views) {
    return answers(net, data_.test, views, options_.test_seed(), stream_, workers_);
  }
  // A model of the run; gives its logits.
  std::vector<float> add(std::string name, const StoredNet& stored) {
    Net<D> net = load_net<D>(stored, stream_);
    auto all = answered(net, measured_views(data_.test.count));
    found_.models.push_back({std::move(name), stored.form, std::move(all.verdicts),
                             nn::bytes_of(stored.state), all.microseconds_per_image});
    return std::move(all.logits);
  }
  // The integer model of a rounded one; logits of both are compared.
  StoredNet add_integers(std::string_view when, Net<D>& rounded, const Form& form) {
    nn::eval(rounded);
    const auto before = answered(rounded, kTestViews).logits;
    nn::convert(rounded);
    Form integers = form;
    integers.kind = Form::Kind::integers;
    StoredNet stored{net_options_, integers, nn::state(rounded)};
    const auto after =
        add(fmt::format("{} training, {} {}", when, planck::name(form.dtype),
                        form.weights == Granularity::per_tensor ? "per tensor" : "per channel"),
            stored);
    found_.integers_equal &=
        std::equal(before.begin(), before.end(), after.begin(), [](float a, float b) {
          return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
        });
    return stored;
  }
  // The model that was added last, for who asked for the run.
  void keep(StoredNet net) {
    found_.measured.push_back(found_.models.size() - 1);
    found_.float_and_integers.push_back(std::move(net));
  }

  // Some test pictures, and those that the float model misreads, before and after the spatial
  // transformer.
  void look() {
    constexpr std::int64_t kExamples = 6;
    const std::size_t most = options_.side <= 32 ? 24 : 6;  // that a page has room for
    Net<D> net = load_net<D>(found_.float_and_integers[0], stream_);
    for (std::int64_t i = 0; i < std::min(kExamples, data_.test.count); ++i)
      found_.examples.push_back(seen(net, {i, 0, 0}));
    const auto mistakes = mistakes_of(found_.models[0].verdicts);
    found_.misread_pictures = static_cast<std::int64_t>(mistakes.size());
    for (std::size_t i = 0; i < std::min(most, mistakes.size()); ++i)
      found_.mistakes.push_back(seen(net, mistakes[i]));
  }
  SeenPair seen(Net<D>& net, const Mistake& m) {
    const auto view = static_cast<std::uint64_t>(m.view);
    const auto batch =
        make_batch<D>({data_.test, options_.side, options_.test_seed(), view, options_.dtype},
                      std::span(&m.picture, 1), stream_);
    const auto pixels = [](const Tensor<D>& t) {
      return nn::as_dtype(t, Dtype::f32).template to_vector<float>();
    };
    SeenPair pair{pixels(batch.pictures),
                  pixels(net.upright(batch.pictures)),
                  data_.test.labels[static_cast<std::size_t>(m.picture)],
                  {},
                  m.misread};
    for (const std::size_t model : found_.measured)
      pair.read.push_back(found_.models[model].verdicts.read(m.view, m.picture));
    return pair;
  }

  const RunOptions& options_;
  const ImageData& data_;
  const NetOptions& net_options_;
  const Stream& stream_;
  dist::Communicator& workers_;
  Outcome found_;
};

}  // namespace planck::digits
