// The demo's model: a spatial transformer turns the picture upright, two convolutions look at it,
// an embedding of places is added to what they see, two linear layers tell the digit. All layers
// but the last of the localizer can be quantized.
#pragma once

#include "planck/training.h"

namespace planck::digits {

template <class B>
using QConv = nn::Quantizable<nn::Conv2d<B>>;
template <class B>
using QLinear = nn::Quantizable<nn::Linear<B>>;

inline nn::ConvOptions conv3x3(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .kernel = {3, 3}, .shape = {.padding = {1, 1}}};
}
inline constexpr PoolOptions kHalve{.kernel = {2, 2}};

// [N, 1, side, side] → [N, 6]; zeros at first.
template <class B>
struct Localizer {
  QConv<B> conv;
  QLinear<B> hidden;
  nn::Linear<B> theta;

  Localizer(Rng& rng, std::int64_t side, const nn::Options<B>& at)
      : conv(nn::Conv2d<B>(rng, conv3x3(1, 8), at)),
        hidden(nn::Linear<B>(rng, {8 * (side / 4) * (side / 4), 32}, at)),
        theta(rng, {32, 6}, at) {
    theta.weight.set(zeros_like(theta.weight.value()));
    theta.bias->set(zeros_like(theta.bias->value()));
  }
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto seen = max_pool2d(relu(conv(avg_pool2d(x, kHalve))), kHalve);
    return theta(relu(hidden(reshape(seen, {x.extent(0), -1}))));
  }
  void onnx(auto& to) {  // the same, to an nn::OnnxModel
    to.avg_pool2d(kHalve);
    to.add(conv);
    to.relu();
    to.max_pool2d(kHalve);
    to.flatten();
    to.add(hidden);
    to.relu();
    to.add(theta);
  }
  void visit(auto&& part) {
    part("conv", conv);
    part("hidden", hidden);
    part("theta", theta);
  }
};

struct NetOptions {
  std::int64_t side = 16;  // of the picture, a multiple of 4
  std::int64_t classes = 10;
  std::optional<ProductMath> math = {};  // of its products; none: that of its dtype
  Dtype dtype = Dtype::f32;              // of weights and activations that are floats

  Stream on(const Stream& stream) const { return math ? stream.with_math(*math) : stream; }
};

template <class B>
struct Net {
  NetOptions options;
  nn::SpatialTransformer<B, Localizer<B>> upright;
  QConv<B> conv1, conv2;
  nn::Embedding<B> places;
  QLinear<B> hidden, output;

  static constexpr std::int64_t kChannels = 32;

  Net(Rng& rng, const NetOptions& o, const typename B::Device& device)
      : Net(rng, o, nn::Options<B>(device, o.dtype)) {}
  Net(Rng& rng, const NetOptions& o, const nn::Options<B>& at)
      : options(o),
        upright(Localizer<B>(rng, o.side, at), {o.side, o.side}),
        conv1(nn::Conv2d<B>(rng, conv3x3(1, 16), at)),
        conv2(nn::Conv2d<B>(rng, conv3x3(16, kChannels), at)),
        places(rng, tokens(), kChannels, at),
        hidden(nn::Linear<B>(rng, {tokens() * kChannels, 64}, at)),
        output(nn::Linear<B>(rng, {64, o.classes}, at)) {
    places.weight.set(places.weight.value() * 0.02);
  }

  // [N, 1, side, side] → [N, classes]
  Tensor<B> operator()(const Tensor<B>& x) { return classify(upright(x)); }
  Tensor<B> classify(const Tensor<B>& seen) {
    auto y = max_pool2d(relu(conv1(seen)), kHalve);
    y = max_pool2d(relu(conv2(y)), kHalve);
    const std::int64_t n = seen.extent(0);
    const auto all = arange<B>(tokens(), Dtype::i64, seen.device());
    y = reshape(y, {n, kChannels, tokens()}) + transpose(places(all));
    return output(relu(hidden(reshape(y, {n, -1}))));
  }
  // The same, to an nn::OnnxModel.
  void onnx(auto& to) {
    to.add(upright);
    classify_onnx(to);
  }
  void classify_onnx(auto& to) {
    for (QConv<B>* conv : {&conv1, &conv2}) {
      to.add(*conv);
      to.relu();
      to.max_pool2d(kHalve);
    }
    const std::int64_t side = options.side / 4;
    to.plus({kChannels, side, side},
            transpose(nn::plain(places.weight.value())).template to_vector<float>());
    to.flatten();
    to.add(hidden);
    to.relu();
    to.add(output);
  }
  std::int64_t tokens() const { return (options.side / 4) * (options.side / 4); }

  void visit(auto&& part) {
    part("upright", upright);
    part("conv1", conv1);
    part("conv2", conv2);
    part("places", places);
    part("hidden", hidden);
    part("output", output);
  }
};

}  // namespace planck::digits
