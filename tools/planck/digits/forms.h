// The forms the model takes: floats, rounded while it trains, integers.
#pragma once

#include <string>

#include "tools/planck/digits/model.h"

namespace planck::digits {

struct Form {
  enum class Kind : std::uint8_t { floats, rounded, integers };
  Kind kind = Kind::floats;
  Dtype dtype = Dtype::s8;
  Granularity weights = Granularity::per_channel;
  bool learned = false;

  bool operator==(const Form&) const = default;
  nn::QuantLayerOptions quantization() const {
    return nn::qat_options(dtype, weights, learned, nn::Observe::percentile);
  }
};

// "float", "rounded s8 per_channel learned", "integer s4 per_tensor"; and back.
std::string to_text(const Form& form);
Result<Form> parse_form(std::string_view text);

inline constexpr std::uint64_t kWeightsSeed = 1;

// A model of that form, ready for the state of a trained one.
template <class B>
Net<B> make_net(const NetOptions& options, const Form& form, const typename B::Device& device) {
  Rng rng{.seed = kWeightsSeed};
  Net<B> net(rng, options, options.on(device));
  if (form.kind == Form::Kind::floats) return net;
  nn::prepare_qat(net, form.quantization());
  nn::start_quantizing(net);
  if (form.kind == Form::Kind::integers) nn::convert(net);
  return net;
}

// A model in a file: its state, and how to make the model it belongs to.
struct StoredNet {
  NetOptions options;
  Form form;
  nn::StateDict state;
};
[[nodiscard]] Result<void> save_net(const std::string& path, const StoredNet& net);
[[nodiscard]] Result<StoredNet> read_net(const std::string& path);

template <class B>
Net<B> load_net(const StoredNet& stored, const typename B::Device& device) {
  Net<B> net = make_net<B>(stored.options, stored.form, device);
  nn::load_state(net, stored.state);
  nn::eval(net);
  return net;
}

}  // namespace planck::digits
