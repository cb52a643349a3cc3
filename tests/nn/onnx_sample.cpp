// onnx_sample FOLDER: small converted models as ONNX files and as checkpoints, and what they answer
// here, for tests/cli/test_onnx.py and test_formats.py.
#include <cstdio>
#include <fstream>
#include <string>

#include "planck/io/npy.h"
#include "planck/nn/onnx/onnx.h"
#include "planck/training.h"
#include "tools/planck/digits/model.h"

namespace {

using namespace planck;
using A = Autodiff<Cpu>;

struct Model {
  nn::ConvOptions first{.in = 2, .out = 6, .kernel = {3, 3}, .shape = {.padding = {1, 1}}};
  nn::ConvOptions second{.in = 6,
                         .out = 8,
                         .kernel = {3, 3},
                         .shape = {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}};
  nn::LinearOptions third{.in = 8 * 2 * 2, .out = 12}, fourth{.in = 12, .out = 5, .bias = false};
  nn::Quantizable<nn::Conv2d<A>> conv1, conv2;
  nn::Quantizable<nn::Linear<A>> hidden, output;

  explicit Model(Rng& rng)
      : conv1(nn::Conv2d<A>(rng, first)),
        conv2(nn::Conv2d<A>(rng, second)),
        hidden(nn::Linear<A>(rng, third)),
        output(nn::Linear<A>(rng, fourth)) {}
  Tensor<A> operator()(const Tensor<A>& x) {
    auto y = max_pool2d(relu(conv1(x)), {.kernel = {2, 2}});
    y = relu(conv2(y));
    return output(relu(hidden(reshape(y, {x.extent(0), -1}))));
  }
  void visit(auto&& part) {
    part("conv1", conv1);
    part("conv2", conv2);
    part("hidden", hidden);
    part("output", output);
  }
  nn::OnnxModel onnx(nn::OnnxForm form) {
    nn::OnnxModel m(form, {2, 8, 8});
    m.add(conv1);
    m.relu();
    m.max_pool2d({.kernel = {2, 2}});
    m.add(conv2);
    m.relu();
    m.flatten();
    m.add(hidden);
    m.relu();
    m.add(output);
    return m;
  }
};

// The same kinds of layers, and a mean, in a module that is written as a whole.
auto sequential(Rng& rng) {
  const nn::ConvOptions first{.in = 2, .out = 6, .kernel = {3, 3}, .shape = {.padding = {1, 1}}};
  const nn::ConvOptions second{.in = 6,
                               .out = 8,
                               .kernel = {3, 1},
                               .shape = {.padding = {2, 0}, .dilation = {2, 1}, .groups = 2}};
  return nn::Sequential(nn::Quantizable(nn::Conv2d<A>(rng, first)), nn::Relu{},
                        nn::MaxPool2d{{.kernel = {2, 2}}},
                        nn::Sequential(nn::Quantizable(nn::Conv2d<A>(rng, second)), nn::Relu{}),
                        nn::AvgPool2d{{.kernel = {2, 2}}}, nn::Flatten{},
                        nn::Quantizable(nn::Linear<A>(rng, {.in = 32, .out = 5})));
}

// What is said of layers that cannot be written.
std::string refusal(auto& layer) {
  try {
    nn::OnnxModel(nn::OnnxForm::qdq, {8}).add(layer);
  } catch (const Exception& e) {
    return e.what();
  }
  return "accepted";
}
std::string refusal(nn::QuantLayerOptions options, bool converted, bool observed = true) {
  Rng rng{.seed = 1};
  nn::Quantizable layer(nn::Linear<A>(rng, {.in = 8, .out = 4}));
  nn::prepare_qat(layer, options);
  if (observed) (void)layer(nn::constant<A>(normal<Cpu>(rng, {3, 8})));
  if (converted) nn::convert(layer);
  return refusal(layer);
}
std::string refusal_of_bf16() {
  Rng rng{.seed = 1};
  nn::Linear<A> layer(rng, {.in = 8, .out = 4}, {A::default_device(), Dtype::bf16});
  return refusal(layer);
}

template <class T>
bool ok(const Result<T>& result) {
  if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result.has_value();
}

bool write_array(const std::string& path, const Tensor<Cpu>& t) {
  auto values = t.to_vector<float>();
  return ok(
      write_npy(path, View{values.data(), Dtype::f32, t.shape(), row_major(t.shape()), true}));
}

// Calibrates, rounds from now on, and converts.
void to_integers(auto& model, Dtype dtype, Granularity weights, const Tensor<Cpu>& x) {
  nn::prepare_qat(model, nn::qat_options(dtype, weights));
  (void)model(nn::constant<A>(x));
  nn::start_quantizing(model);
  nn::eval(model);
  nn::convert(model);
}

// Writes the answers, the graph in both forms and the checkpoint.
template <class Model, class Onnx>
bool write_sample(const std::string& at, Model& model, Rng& rng, Dtype dtype, Granularity weights,
                  Onnx onnx) {
  to_integers(model, dtype, weights, normal<Cpu>(rng, {16, 2, 8, 8}));
  const auto x = normal<Cpu>(rng, {7, 2, 8, 8}) * 1.5;  // some beyond the range
  const auto y = nn::plain(model(nn::constant<A>(x)));
  return write_array(at + ".x.npy", x) && write_array(at + ".y.npy", y) &&
         ok(onnx(nn::OnnxForm::integers).write(at + ".integers.onnx")) &&
         ok(onnx(nn::OnnxForm::qdq).write(at + ".qdq.onnx")) &&
         ok(nn::save_quantized(at + ".safetensors", model, {{"kind", "sample"}}));
}

// The demo's model, untrained: AT.x, what its localizer has seen (AT.looked), the picture turned
// upright (AT.seen), the logits (AT.y); the whole graph, and that from the upright picture on.
bool write_digits(const std::string& at, Dtype dtype) {
  Rng rng{.seed = 13};
  digits::Net<A> net(rng, {}, A::default_device());
  auto& looking = net.upright.localizer;
  looking.theta.weight.set(looking.theta.weight.value() + normal<Cpu>(rng, {6, 32}) * 0.1);
  to_integers(net, dtype, Granularity::per_channel, uniform<Cpu>(rng, {32, 1, 16, 16}, 0, 1));
  const auto x = uniform<Cpu>(rng, {40, 1, 16, 16}, 0, 1);
  const auto in = nn::constant<A>(x);
  const auto small = max_pool2d(relu(looking.conv(avg_pool2d(in, digits::kHalve))), digits::kHalve);
  const auto looked = relu(looking.hidden(reshape(small, {x.extent(0), -1})));
  const auto seen = net.upright(in);
  bool written = write_array(at + ".x.npy", x) && write_array(at + ".y.npy", nn::plain(net(in))) &&
                 write_array(at + ".looked.npy", nn::plain(looked)) &&
                 write_array(at + ".seen.npy", nn::plain(seen));
  for (const auto form : {nn::OnnxForm::integers, nn::OnnxForm::qdq}) {
    const std::string name = form == nn::OnnxForm::qdq ? ".qdq.onnx" : ".integers.onnx";
    nn::OnnxModel whole(form, {1, 16, 16}), upright(form, {1, 16, 16});
    whole.add(net);
    net.classify_onnx(upright);
    written = written && ok(whole.write(at + name)) && ok(upright.write(at + ".upright" + name));
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  for (const Dtype dtype : {Dtype::s8, Dtype::s4})
    for (const auto weights : {Granularity::per_tensor, Granularity::per_channel}) {
      Rng rng{.seed = 11};
      Model model(rng);
      const std::string at = folder + "/" + std::string(name(dtype)) +
                             (weights == Granularity::per_tensor ? "-tensor" : "-channel");
      if (!write_sample(at, model, rng, dtype, weights,
                        [&](nn::OnnxForm form) { return model.onnx(form); }))
        return 1;
    }
  Rng rng{.seed = 12};
  auto whole = sequential(rng);
  if (!write_sample(folder + "/sequential", whole, rng, Dtype::s8, Granularity::per_channel,
                    [&](nn::OnnxForm form) {
                      nn::OnnxModel m(form, {2, 8, 8});
                      m.add(whole);
                      return m;
                    }))
    return 1;

  if (!write_digits(folder + "/digits-s8", Dtype::s8) ||
      !write_digits(folder + "/digits-s4", Dtype::s4))
    return 1;

  const auto usual = nn::qat_options(Dtype::s8);
  auto tokens = usual, groups = usual;
  tokens.input.scheme.granularity = Granularity::per_token;
  groups.weight.scheme.granularity = Granularity::per_group;
  groups.weight.scheme.group = 4;
  std::ofstream refused(folder + "/refused");
  refused << refusal(usual, false) << "\n"
          << refusal(tokens, true) << "\n"
          << refusal(groups, true) << "\n"
          << refusal(usual, true, false) << "\n"
          << refusal_of_bf16() << "\n"
          << refusal(usual, true) << "\n";
  return refused ? 0 : 1;
}
