#include "tools/planck/digits/onnx.h"

#include "planck/nn/onnx/onnx.h"

namespace planck::digits {

std::vector<std::string> onnx_files(const std::string& stem, const StoredNet& net) {
  if (net.form.kind != Form::Kind::integers || net.options.dtype != Dtype::f32) return {};
  return {stem + ".onnx", stem + ".qdq.onnx"};
}

Result<void> write_onnx(const std::string& stem, const StoredNet& stored) {
  const auto files = onnx_files(stem, stored);
  if (files.empty()) return {};
  using B = Autodiff<Cpu>;  // as forms.cpp: compiled once
  Net<B> net = load_net<B>(stored, B::default_device());
  constexpr nn::OnnxForm kForms[] = {nn::OnnxForm::integers, nn::OnnxForm::qdq};
  for (std::size_t i = 0; i < files.size(); ++i) {
    nn::OnnxModel onnx(kForms[i], {1, stored.options.side, stored.options.side});
    onnx.add(net);
    if (auto ok = onnx.write(files[i]); !ok) return ok;
  }
  return {};
}

}  // namespace planck::digits
