// onnx_sample FOLDER: small converted models as ONNX files and as checkpoints, and what they answer
// here, for tests/cli/test_onnx.py and test_formats.py.
#include <cstdio>
#include <string>

#include "planck/io/npy.h"
#include "planck/nn/onnx/onnx.h"
#include "planck/training.h"

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
  nn::OnnxModel onnx(nn::OnnxForm form, Dtype dtype) {
    nn::OnnxModel m(form, {2, 8, 8});
    m.conv2d(nn::state(conv1), first, dtype);
    m.relu();
    m.max_pool2d({.kernel = {2, 2}});
    m.conv2d(nn::state(conv2), second, dtype);
    m.relu();
    m.flatten();
    m.linear(nn::state(hidden), third, dtype);
    m.relu();
    m.linear(nn::state(output), fourth, dtype);
    return m;
  }
};

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  for (const Dtype dtype : {Dtype::s8, Dtype::s4})
    for (const auto weights : {Granularity::per_tensor, Granularity::per_channel}) {
      Rng rng{.seed = 11};
      Model model(rng);
      nn::prepare_qat(model, nn::qat_options(dtype, weights));
      const auto calibration = normal<Cpu>(rng, {16, 2, 8, 8});
      (void)model(nn::constant<A>(calibration));
      nn::start_quantizing(model);
      nn::eval(model);
      nn::convert(model);
      const auto x = normal<Cpu>(rng, {7, 2, 8, 8}) * 1.5;  // some beyond the range
      const auto y = nn::plain(model(nn::constant<A>(x)));
      const std::string at = folder + "/" + std::string(name(dtype)) +
                             (weights == Granularity::per_tensor ? "-tensor" : "-channel");
      if (!write_array(at + ".x.npy", x) || !write_array(at + ".y.npy", y)) return 1;
      if (!ok(model.onnx(nn::OnnxForm::integers, dtype).write(at + ".integers.onnx"))) return 1;
      const auto saved = nn::save_quantized(at + ".safetensors", model, {{"kind", "sample"}});
      if (!ok(saved)) return 1;
      if (!ok(model.onnx(nn::OnnxForm::qdq, dtype).write(at + ".qdq.onnx"))) return 1;
    }
  return 0;
}
