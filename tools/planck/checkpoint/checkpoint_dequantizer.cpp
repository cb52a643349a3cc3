#include "tools/planck/checkpoint/checkpoint_dequantizer.h"

#include <fmt/format.h>

#include <set>

#include "planck/nn/state_file.h"
#include "tools/planck/checkpoint/checkpoint_output.h"
#include "tools/planck/checkpoint/mxfp4_pairs.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"
#include "tools/planck/checkpoint/units/unit_pool.h"
#include "tools/planck/print/progress.h"

namespace planck::cli {

namespace {

// What becomes of one tensor.
struct Restore {
  const SourceTensor* source = nullptr;
  const QuantizedTensor* quantized = nullptr;  // codes and scales of ours
  const SourceTensor* exponents = nullptr;     // of a pair of MXFP4
  OutputTensor output;
  std::vector<Unit> units;

  bool is_restored() const { return output.type != source->type || quantized != nullptr; }
};

bool is_narrow(const TensorEncoding& type) { return type.safetensors || type.text == "MXFP4"; }

// `others`: also what was narrow before anybody here quantized it.
Restore plan_restore(const SourceTensor& t, bool others, const QuantizedTensor* quantized,
                     const SourceTensor* exponents) {
  Restore r{&t, quantized, exponents, {t.name, t.type, t.shape}, {}};
  if (quantized != nullptr) {
    const TensorScheme& s = quantized->scheme;
    r.output.type = &encoding_of(s.original_dtype);
    r.output.shape.assign(s.original_shape.begin(), s.original_shape.end());
    r.units = cut(group_layout(s), kUnitElements);
    return r;
  }
  if (exponents != nullptr) {
    r.output = {mxfp4_name(t), &encoding_of(Dtype::bf16), mxfp4_shape(t)};
  } else if (t.type->decode != nullptr && (others || !t.type->safetensors)) {
    r.output.type = &encoding_of(is_narrow(*t.type) ? Dtype::bf16 : Dtype::f32);
  }
  r.units = cut_plain(t.elements(), kUnitElements);
  return r;
}

std::set<std::string> names_of(const std::vector<Restore>& all) {
  std::set<std::string> names;
  for (const Restore& r : all) names.insert(r.output.name);
  return names;
}

Result<void> do_unit(UnitWorker& worker, const CheckpointSource& in, const Restore& r,
                     std::size_t index, const Unit& u, CheckpointOutput& out) {
  Result<std::span<const std::byte>> bytes;
  std::uint64_t at =
      static_cast<std::uint64_t>(u.first_element / r.output.type->elements * r.output.type->bytes);
  if (r.quantized != nullptr) {
    bytes = worker.restore(in, *r.quantized, u);
  } else if (r.exponents != nullptr) {
    bytes = worker.restore_pairs(in, *r.source, *r.exponents, u);
    at = static_cast<std::uint64_t>(u.first_element) * 4;  // two elements of two bytes each
  } else if (r.source->type == r.output.type) {
    bytes = worker.copy({.source = &in, .tensor = r.source, .unit = u});
  } else {
    bytes = worker.decode(in, *r.source, *r.output.type->dtype, u);
  }
  if (!bytes)
    return fail(bytes.error().code,
                fmt::format("tensor {}: {}", in_quotes(r.source->name), bytes.error().message));
  return out.write(index, at, *bytes);
}

}  // namespace

Result<RestoreReport> dequantize_checkpoint(const CheckpointSource& in, const std::string& out,
                                            std::uint64_t shard_bytes, const Stream& stream,
                                            int threads) {
  const auto quantized = quantized_tensors(in);
  if (!quantized)
    return fail(quantized.error().code,
                fmt::format("{}: {}", in.path(), quantized.error().message));
  std::set<const SourceTensor*> parts;  // scales and the like: they are not in the output
  for (const auto& [name, t] : *quantized) {
    parts.insert(t.scale);
    if (t.zero_point != nullptr) parts.insert(t.zero_point);
  }
  // A checkpoint of ours gets back what it was made of, f8 and all.
  const bool others = !is_quantized_checkpoint(in.metadata());
  const Mxfp4Pairs pairs = others ? find_mxfp4_pairs(in) : Mxfp4Pairs{};
  for (const auto& [blocks, exponents] : pairs) parts.insert(exponents);

  std::vector<Restore> plan;
  std::vector<OutputTensor> outputs;
  RestoreReport report;
  for (const SourceTensor& t : in.tensors()) {
    if (parts.contains(&t)) continue;
    const auto q = quantized->find(t.name);
    const auto pair = pairs.find(&t);
    plan.push_back(plan_restore(t, others, q == quantized->end() ? nullptr : &q->second,
                                pair == pairs.end() ? nullptr : pair->second));
    ++(plan.back().is_restored() ? report.restored : report.kept);
    outputs.push_back(plan.back().output);
    if (!plan.back().output.type->safetensors)
      return fail(ErrorCode::io, fmt::format("{}: tensor {} is {}, which is not decoded", in.path(),
                                             in_quotes(t.name), t.type->text));
  }
  if (report.restored == 0)
    return fail(
        ErrorCode::io,
        fmt::format("{}: is not quantized: its metadata has no {}, and no tensor is of 8 bits "
                    "or less that stand for floats",
                    in.path(), kQuantizedKey));
  if (names_of(plan).size() != plan.size())
    return fail(ErrorCode::io,
                fmt::format("{}: two tensors would have the same name once restored", in.path()));
  const bool folder = shard_bytes > 0 || (in.is_folder() && !out.ends_with(".safetensors"));
  SafetensorsMetadata metadata = nn::without_checksum(original_metadata(in.metadata()));
  for (const Restore& r : plan)  // of states: four-bit integers no more
    if (r.quantized != nullptr) metadata.erase("dtype of " + r.source->name);
  OutputOptions options{.path = out,
                        .folder = folder,
                        .shard_bytes = shard_bytes,
                        .metadata = std::move(metadata),
                        .copies = in.companions()};
  limit_modes(in, options);
  auto output = CheckpointOutput::create(options, outputs);
  if (!output) return tl::unexpected(output.error());
  report.file_bytes_before = in.file_bytes();
  report.file_bytes_after = output->file_bytes();
  UnitPool pool(stream, threads);
  Progress progress(report.file_bytes_before);
  for (std::size_t first = 0; first < plan.size();) {
    std::vector<std::pair<std::size_t, std::size_t>> tasks;  // tensor, unit
    std::size_t last = first;
    std::uint64_t read = 0;
    for (; last < plan.size() && tasks.size() < kUnitsTogether; ++last) {
      for (std::size_t u = 0; u < plan[last].units.size(); ++u) tasks.emplace_back(last, u);
      read += plan[last].source->bytes();
    }
    auto ok =
        pool.run(static_cast<std::int64_t>(tasks.size()), [&](UnitWorker& worker, std::int64_t i) {
          const auto [t, u] = tasks[static_cast<std::size_t>(i)];
          return do_unit(worker, in, plan[t], t, plan[t].units[u], *output);
        });
    if (!ok) return tl::unexpected(ok.error());
    progress.advance(read, plan[last - 1].source->name);
    first = last;
  }
  if (auto ok = output->commit(); !ok) return tl::unexpected(ok.error());
  return report;
}

}  // namespace planck::cli
