#include "tools/planck/checkpoint/sample_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planck/io/safetensors.h"
#include "planck/loops/parallel.h"
#include "planck/math/philox.h"

namespace planck::cli {

namespace {

constexpr std::int64_t kFeatures = 256, kInner = 1024, kVocabulary = 4096, kLayers = 3,
                       kExperts = 4, kPositions = 512;

std::vector<SafetensorsSpec> model() {
  std::vector<SafetensorsSpec> tensors = {{"model.embed.weight", "F32", {kVocabulary, kFeatures}},
                                          {"model.norm.weight", "F32", {kFeatures}},
                                          {"model.position_ids", "I64", {1, kPositions}}};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    for (const char* which : {"q", "k", "v", "o"})
      tensors.push_back(
          {fmt::format("{}attention.{}.weight", at, which), "BF16", {kFeatures, kFeatures}});
    tensors.push_back({at + "attention.norm.weight", "F32", {kFeatures}});
    tensors.push_back({at + "experts.weight", "BF16", {kExperts, kFeatures, kFeatures}});
    tensors.push_back({at + "mlp.up.weight", "F32", {kInner, kFeatures}});
    tensors.push_back({at + "mlp.down.weight", "F32", {kFeatures, kInner}});
    tensors.push_back({at + "mlp.norm.weight", "F32", {kFeatures}});
  }
  return tensors;
}

// (1 + u) * 2^k with k in −3 … 4, u in [0, 1): all exact in f32.
float spread(std::uint32_t word) {
  constexpr float kPowers[] = {0.125f, 0.25f, 0.5f, 0.5f, 1, 1, 2, 4};
  return (1 + uniform01(word)) * kPowers[word & 7];
}

// Element i of a matrix whose rows have `columns` elements; stream t is the tensor's.
float value(std::uint64_t seed, std::uint64_t t, std::int64_t i, std::int64_t columns) {
  const Philox4 w = PhiloxStream{seed, 2 * t}.words(static_cast<std::uint64_t>(i));
  const PhiloxStream shared{seed, 2 * t + 1};
  const std::int64_t row = i / columns, block = i % columns / 64;
  const float row_size = spread(shared.words(static_cast<std::uint64_t>(row)).v[0]);
  const float block_size =
      1 + uniform01(shared.words(static_cast<std::uint64_t>(row)).v[1 + block % 3]);
  const float bell =
      uniform01(w.v[0]) + uniform01(w.v[1]) + uniform01(w.v[2]) + uniform01(w.v[3]) - 2;
  // The low bits of two words have no part in uniform01.
  const bool outlier = (w.v[0] & 31) == 0 && (w.v[1] & 31) == 0;
  return bell * row_size * block_size * (outlier ? 0.25f : 0.03125f);
}

}  // namespace

Result<void> write_sample_checkpoint(const Stream& cpu, const std::string& path,
                                     std::uint64_t seed) {
  const std::vector<SafetensorsSpec> tensors = model();
  auto writer = SafetensorsWriter::create(
      path, tensors, {{"made_by", "planck demo"}, {"seed", std::to_string(seed)}});
  if (!writer) return tl::unexpected(writer.error());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const SafetensorsSpec& spec = tensors[t];
    const std::int64_t columns = spec.shape.back();
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < spec.shape.size(); ++d) rows *= spec.shape[d];
    const auto count = static_cast<std::size_t>(rows * columns);
    const auto fill = [&](auto&& make) {
      std::vector<decltype(make(std::int64_t{0}))> values(count);
      parallel_for(cpu, rows, [&](std::int64_t row) {
        for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i)
          values[static_cast<std::size_t>(i)] = make(i);
      });
      return writer->write(spec.name, std::as_bytes(std::span(values)));
    };
    const auto weight = [&](std::int64_t i) { return value(seed, t, i, columns); };
    Result<void> done;
    if (spec.dtype == "I64")
      done = fill([](std::int64_t i) { return i; });
    else if (spec.shape.size() == 1)
      done = fill([&](std::int64_t i) { return 1 + weight(i); });
    else if (spec.dtype == "BF16")
      done = fill([&](std::int64_t i) { return bf16(weight(i)); });
    else
      done = fill(weight);
    if (!done) return done;
  }
  return writer->commit();
}

}  // namespace planck::cli
