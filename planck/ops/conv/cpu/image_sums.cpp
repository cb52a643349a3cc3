// conv2d and conv2d_input of tensor_core and exact: cpu:integer_lanes, cpu:exact_amx,
// cpu:exact_vnni, cpu:exact_f64. One product for each phase and group, windows by weights; both
// are packed from where they lie, panel by panel.
#include <cmath>

#include "planck/loops/parallel.h"
#include "planck/ops/conv/cpu/exponents.h"
#include "planck/ops/conv/cpu/lines.h"
#include "planck/ops/conv/cpu/places.h"
#include "planck/ops/conv/cpu/window_products.h"

namespace planck {

using namespace conv_detail;

namespace {

// The image that is read has `channels` in all.
std::int64_t image_channels(const ConvProblem& p) {
  return p.kind == ConvKind::conv2d_input ? p.weight[0] : p.x[1];
}

struct Layout {
  std::size_t image_magnitudes = 0, weight_magnitudes = 0, image_exponents = 0,
              weight_exponents = 0, products, bytes;
  Layout(const ConvProblem& p, const Engine& engine) {
    Parts parts;
    const std::int64_t rows = rows_of(p), groups = p.groups();
    const std::int64_t places = windows_of(p, 0).places(), k = deepest(p);
    std::size_t each = std::max(engine.bytes(places, rows, k), engine.bytes(rows, places, k));
    if (engine.exact) {
      const auto words = [&](std::int64_t n) { return parts.add(static_cast<std::size_t>(4 * n)); };
      image_magnitudes = words(p.batch() * std::max(image_channels(p), groups));
      weight_magnitudes = words(p.weight[0] * p.weight[1]);
      image_exponents = words(p.batch() * groups);
      weight_exponents = words(groups * rows);
      each += exponents(places);
    }
    products = parts.add(bytes_for_groups(groups, each));
    bytes = parts.end;
  }
  // Of places, one for each: of a product's own part.
  static std::size_t exponents(std::int64_t places) {
    return static_cast<std::size_t>((4 * places + 63) / 64 * 64);
  }
};

class ImageSums {
 public:
  ImageSums(const Stream& stream, Workspace workspace, const ConvProblem& p,
            const Operands& operands, const Engine& engine)
      : stream_(stream),
        p_(p),
        engine_(engine),
        image_(operands[conv_operand::first]),
        weight_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        layout_(p, engine),
        workspace_(workspace) {}

  void run() {
    if (engine_.exact) find_exponents();
    for (std::int64_t phase = 0; phase < phases_of(p_); ++phase) {
      const Windows w = windows_of(p_, phase);
      if (w.places() == 0) continue;
      multiply(w);
      if (!finite_) replace_not_finite(w);
    }
  }

 private:
  template <class T>
  T* part(std::size_t at) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace_.data) + at);
  }

  void find_exponents() {
    auto* const images = part<Magnitude>(layout_.image_magnitudes);
    auto* const weights = part<Magnitude>(layout_.weight_magnitudes);
    find_magnitudes(stream_, image_, images);
    find_magnitudes(stream_, weight_, weights);
    const std::int64_t groups = p_.groups(), channels = image_channels(p_) / groups;
    for (std::int64_t at = 0; at < p_.batch() * groups; ++at) {
      Magnitude most;
      for (std::int64_t c = 0; c < channels; ++c) most.join(images[at * channels + c]);
      images[at] = most;  // behind what is still to be read
      part<std::int32_t>(layout_.image_exponents)[at] = most.exponent();
      finite_ = finite_ && most.finite();
    }
    const std::int64_t rows = rows_of(p_), depth = channels;
    const bool forward = p_.kind == ConvKind::conv2d;
    for (std::int64_t at = 0; at < groups * rows; ++at) {
      Magnitude most;
      for (std::int64_t c = 0; c < depth; ++c)
        most.join(weights[forward ? at * depth + c : (at / rows * depth + c) * rows + at % rows]);
      part<std::int32_t>(layout_.weight_exponents)[at] = most.exponent();
      finite_ = finite_ && most.finite();
    }
  }

  void multiply(const Windows& w) const {
    const std::int64_t rows = rows_of(p_), places = w.places(), k = w.depth();
    // Windows of channels that lie side by side are rows, with k dense; others columns.
    const bool turn = image_.strides[1] != 1 || image_.strides[3] == 1 || rows < engine_.panel();
    const std::int64_t m = turn ? rows : places, n = turn ? places : rows;
    const std::size_t own = engine_.exact ? Layout::exponents(places) : 0;
    const std::size_t each = own + engine_.bytes(m, n, k);
    gemm::for_batches(
        stream_, {part<std::byte>(layout_.products), layout_.bytes - layout_.products}, m, n, k,
        p_.groups(), each, [&](const Stream& on, std::byte* bytes, std::int64_t group) {
          const WindowMatrix matrix(w, {&image_, group * w.channels, finite_});
          const WindowRows windows(matrix);
          const WeightRows weights(p_, w, weight_, group, finite_);
          const PlaceSink sink(w, out_, group * rows, !turn);
          gemm::Product product{places, rows, k, side_of(windows), side_of(weights), {}, 0, &sink};
          if (engine_.exact) {
            auto* const exponents = reinterpret_cast<std::int32_t*>(bytes);
            for (std::int64_t i = 0; i < w.batch; ++i)
              std::fill_n(exponents + i * w.in_image(), w.in_image(),
                          part<std::int32_t>(layout_.image_exponents)[i * p_.groups() + group]);
            product.row_exponents = exponents;
            product.column_exponents = part<std::int32_t>(layout_.weight_exponents) + group * rows;
          }
          engine_.multiply(on, p_.element_dtype, turn ? turned(product) : product, bytes + own);
        });
  }

  // Sums that meet NaN or infinities, which were multiplied as zeros.
  void replace_not_finite(const Windows& w) const {
    const auto* const images = part<Magnitude>(layout_.image_magnitudes);
    const std::int64_t rows = rows_of(p_);
    parallel_for(stream_, w.batch * p_.groups() * rows, [&](std::int64_t t) {
      const std::int64_t r = t % rows, group = t / rows % p_.groups(), n = t / rows / p_.groups();
      const WeightRows weights(p_, w, weight_, group, true);
      if (images[n * p_.groups() + group].finite() && finite_row(w, weights, r)) return;
      const PlaceSink sink(w, out_, group * rows, true);
      for (std::int64_t i = 0; i < w.down.places; ++i)
        for (std::int64_t j = 0; j < w.across.places; ++j) {
          const NotFiniteSum sum = meets(w, weights, n, i, j, group, r);
          if (sum.any()) static_cast<float*>(out_.data)[sink.offset(n, i, j, r)] = sum.value();
        }
    });
  }
  bool finite_row(const Windows& w, const WeightRows& weights, std::int64_t row) const {
    const auto* const data = static_cast<const float*>(weight_.data);
    for (std::int64_t tap = 0; tap < w.taps(); ++tap)
      for (std::int64_t c = 0; c < w.channels; ++c)
        if (!std::isfinite(data[weights.offset(row, tap, c)])) return false;
    return true;
  }
  NotFiniteSum meets(const Windows& w, const WeightRows& weights, std::int64_t n, std::int64_t i,
                     std::int64_t j, std::int64_t group, std::int64_t row) const {
    const Strides& s = image_.strides;
    NotFiniteSum sum;
    for (std::int64_t tap = 0; tap < w.taps(); ++tap) {
      const std::int64_t h = w.down.read(i, tap / w.across.taps);
      const std::int64_t at = w.across.read(j, tap % w.across.taps);
      const bool inside = h >= 0 && h < w.down.extent && at >= 0 && at < w.across.extent;
      for (std::int64_t c = 0; c < w.channels; ++c)
        sum.add(inside ? static_cast<const float*>(
                             image_.data)[n * s[0] + (group * w.channels + c) * s[1] + h * s[2] +
                                          at * s[3]]
                       : 0.0f,
                static_cast<const float*>(weight_.data)[weights.offset(row, tap, c)]);
    }
    return sum;
  }

  const Stream& stream_;
  const ConvProblem& p_;
  Engine engine_;
  const View &image_, &weight_, &out_;
  Layout layout_;
  Workspace workspace_;
  bool finite_ = true;
};

}  // namespace

std::size_t conv_detail::image_sums_workspace(const ConvProblem& p, const Engine& engine) {
  if (numel(p.kind == ConvKind::conv2d ? p.y() : p.x) == 0) return 0;
  return Layout(p, engine).bytes;
}

Result<void> conv_detail::image_sums(const Stream& stream, Workspace workspace,
                                     const ConvProblem& p, const Operands& operands,
                                     const Engine& engine) {
  if (numel(operands[conv_operand::out].shape) > 0)
    ImageSums(stream, workspace, p, operands, engine).run();
  return {};
}

}  // namespace planck
