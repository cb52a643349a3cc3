#include "tools/planck/checkpoint/checkpoint_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>

#include "tools/planck/checkpoint/tensor_plan.h"
#include "tools/planck/checkpoint/units/kept_floats.h"
#include "tools/planck/checkpoint/units/shared_scales.h"
#include "tools/planck/checkpoint/units/unit_pool.h"
#include "tools/planck/print/progress.h"

namespace planck::cli {

namespace {

using Action = TensorPlan::Action;

// What one tensor, or some channels of a large one, need while their units are under way.
struct TensorRun {
  const TensorPlan* plan;
  UnitJob job;  // but for the unit
  std::vector<Unit> units;
  SharedScales shared = {};  // by units, or gathered from them: written once, at the end
  std::vector<QuantizedUnit> done = {};  // views into workers are gone, errors remain
  bool first = true;                     // of its tensor

  std::size_t bytes_shared() const {
    return shared.scale.size() + shared.first_scale.size() +
           4 * (shared.zero.size() + shared.first_zero.size());
  }
};
constexpr std::size_t kMostShared = std::size_t{1} << 25;    // bytes, of runs side by side
constexpr std::size_t kMostGathered = std::size_t{1} << 20;  // of one tensor

std::vector<Unit> units_of(const TensorPlan& plan, const QuantizeOptions& options) {
  const std::int64_t n = plan.source->elements();
  if (plan.action == Action::part) return {};
  if (plan.action == Action::integers) return cut(group_layout(plan.scheme), kUnitElements);
  const std::int64_t block = plan.action == Action::blocks ? options.blocks->elements : 1;
  const std::int64_t both = std::max<std::int64_t>(block, plan.source->type->elements);
  return cut_plain(n, std::max<std::int64_t>(kUnitElements / both * both, both));
}

// Threads that write to one file wait for one another, a few bytes as long as many: scales are
// gathered where they are few.
void gather_scales(TensorRun& run) {
  const TensorScheme& s = run.plan->scheme;
  const auto channels = static_cast<std::size_t>(group_layout(s).channels);
  const std::size_t width = storage_bytes(s.original_dtype);
  if (channels * (width + 4) > kMostGathered) return;
  run.shared.scale.resize(channels * width);
  run.shared.zero.resize(channels);
}

Result<void> write_integers(TensorRun& run, const Unit& u, const QuantizedUnit& made,
                            CheckpointOutput& out) {
  const TensorPlan& plan = *run.plan;
  const auto bits_each = static_cast<std::uint64_t>(bits(plan.scheme.dtype));
  const auto offset = static_cast<std::uint64_t>(u.first_element) * bits_each / 8;
  if (auto ok = out.write(plan.first_output, offset, made.codes); !ok) return ok;
  if (run.job.shared != nullptr) return {};
  const auto width = storage_bytes(plan.scheme.original_dtype);
  const auto channel = static_cast<std::uint64_t>(u.first_channel);
  if (!run.shared.scale.empty()) {
    std::copy(made.scale.begin(), made.scale.end(), run.shared.scale.data() + channel * width);
    std::copy(made.zero_point.begin(), made.zero_point.end(), run.shared.zero.data() + channel);
    return {};
  }
  if (auto ok = out.write(plan.first_output + 1, channel * width, made.scale); !ok) return ok;
  if (run.job.bytes == CodeBytes::offset || plan.outputs < 3) return {};
  return out.write(plan.first_output + 2, channel * 4, std::as_bytes(made.zero_point));
}

Result<void> write_shared(const TensorRun& run, CheckpointOutput& out) {
  const TensorPlan& plan = *run.plan;
  if (run.job.bytes == CodeBytes::offset && run.first) {
    const std::int64_t shape[] = {plan.source->shape[0], plan.source->shape[1]};
    if (auto ok = out.write(plan.first_output + 2, 0, std::as_bytes(std::span(shape))); !ok)
      return ok;
  }
  if (run.shared.scale.empty()) return {};
  const auto channel = static_cast<std::uint64_t>(run.job.first_channel);
  const auto width = storage_bytes(plan.scheme.original_dtype);
  if (auto ok = out.write(plan.first_output + 1, channel * width, run.shared.scale); !ok) return ok;
  if (run.job.bytes == CodeBytes::offset || plan.outputs < 3) return {};
  return out.write(plan.first_output + 2, channel * 4, std::as_bytes(std::span(run.shared.zero)));
}

// Of a tensor that is kept: bytes, and where they go.
Result<void> carry_unit(UnitWorker& worker, const UnitJob& job, const TensorPlan& plan,
                        const TensorEncoding& into, CheckpointOutput& out) {
  const std::int64_t first = job.unit.first_element;
  if (plan.action == Action::decode) {
    const auto x = worker.read(*job.source, *job.tensor, job.unit);
    if (!x) return tl::unexpected(x.error());
    const auto count = static_cast<std::size_t>(job.unit.elements()) * 4;
    return out.write(plan.first_output, static_cast<std::uint64_t>(first) * 4,
                     {static_cast<const std::byte*>(x->data), count});
  }
  const bool pair = plan.action == Action::pair;
  const auto bytes = pair                           ? worker.pair_blocks(job, *plan.exponents)
                     : plan.action == Action::widen ? worker.widen(job)
                                                    : worker.copy(job);
  if (!bytes) return tl::unexpected(bytes.error());
  const std::int64_t blocks = pair ? first / 16 : first / into.elements;
  return out.write(plan.first_output, static_cast<std::uint64_t>(blocks * into.bytes), *bytes);
}

Result<void> do_unit(UnitWorker& worker, TensorRun& run, std::size_t index,
                     const QuantizeOptions& options, const CheckpointPlan& all,
                     CheckpointOutput& out) {
  const TensorPlan& plan = *run.plan;
  const Unit& u = run.units[index];
  UnitJob job = run.job;
  job.unit = u;
  if (!plan.quantized())
    return carry_unit(worker, job, plan, *all.outputs[plan.first_output].type, out);
  auto made =
      plan.action == Action::blocks ? worker.encode(job, *options.blocks) : worker.quantize(job);
  if (!made) return tl::unexpected(made.error());
  if (plan.action == Action::blocks) {
    const auto at = static_cast<std::uint64_t>(u.first_element / options.blocks->elements *
                                               options.blocks->bytes);
    if (auto ok = out.write(plan.first_output, at, made->codes); !ok) return ok;
  } else if (auto ok = write_integers(run, u, *made, out); !ok) {
    return ok;
  }
  run.done[index] = *made;
  return {};
}

TensorReport report_of(const TensorPlan& plan, const QuantizeOptions& options) {
  TensorReport report{plan.source, "", plan.kept_reason,     "",
                      {},          {}, plan.source->bytes(), plan.bytes_after};
  if (plan.quantized())
    report.scheme = plan.action == Action::blocks ? std::string(options.blocks->text)
                                                  : plan.scheme.description();
  return report;
}

void add_to_report(const TensorRun& run, const QuantizeOptions& options, CheckpointReport& all) {
  if (run.first) all.tensors.push_back(report_of(*run.plan, options));
  TensorReport& report = all.tensors.back();
  double before = 0;
  for (const QuantizedUnit& u : run.done) {
    if (!u.kernel.empty()) report.kernel = u.kernel;
    report.error.add(u.error);
    before += u.before.noise;
  }
  if (options.method == Method::mse && run.plan->action == Action::integers)
    report.noise_before = report.noise_before.value_or(0) + before;
}

// What a run would report, but for errors and kernels.
Result<CheckpointReport> planned(const CheckpointSource& in, const CheckpointPlan& plan,
                                 const QuantizeOptions& options) {
  CheckpointReport report{{}, in.file_bytes(), 0};
  for (const TensorPlan& t : plan.tensors) report.tensors.push_back(report_of(t, options));
  const auto bytes = output_bytes(plan.output, plan.outputs);
  if (!bytes) return tl::unexpected(bytes.error());
  report.file_bytes_after = *bytes;
  return report;
}

Result<void> refuse_non_finite(const CheckpointReport& report) {
  for (const TensorReport& t : report.tensors)
    if (t.error.non_finite > 0)
      return fail(ErrorCode::io, fmt::format("tensor {}: {} values are NaN or infinite, --strict "
                                             "refuses them",
                                             in_quotes(t.entry->name), t.error.non_finite));
  return {};
}

}  // namespace

double TensorReport::sqnr_db_before() const {
  const double noise = noise_before.value_or(error.noise);
  return noise == 0 ? std::numeric_limits<double>::infinity()
                    : 10 * std::log10(error.signal / noise);
}

Result<CheckpointReport> quantize_checkpoint(const CheckpointSource& in, const std::string& out,
                                             const QuantizeOptions& options, const Stream& stream,
                                             int threads) {
  if (is_quantized_checkpoint(in.metadata()))
    return fail(ErrorCode::io,
                fmt::format("{}: is quantized already; dequantize it first", in.path()));
  if (options.method == Method::mse && options.format == CheckpointFormat::gguf)
    return fail(ErrorCode::invalid_problem,
                "--method mse is not for --format gguf: Q4_K and Q6_K search by themselves, the "
                "others are rounded");
  const auto plan = plan_checkpoint(in, out, options);
  if (!plan) return tl::unexpected(plan.error());
  if (options.dry_run) return planned(in, *plan, options);
  auto output = CheckpointOutput::create(plan->output, plan->outputs);
  if (!output) return tl::unexpected(output.error());

  CheckpointReport report{{}, in.file_bytes(), output->file_bytes()};
  UnitPool pool(stream, threads);
  Progress progress(report.file_bytes_before);
  std::mutex drawing;
  std::deque<TensorRun> window;         // tensors whose units run side by side; jobs point into it
  std::size_t pending = 0, shared = 0;  // units, bytes
  KeptFloats kept;                      // of tensors in the window
  const auto flush = [&]() -> Result<void> {
    std::vector<std::pair<std::size_t, std::size_t>> tasks;  // tensor, unit
    for (std::size_t t = 0; t < window.size(); ++t)
      for (std::size_t u = 0; u < window[t].units.size(); ++u) tasks.emplace_back(t, u);
    auto ok = pool.run(
        static_cast<std::int64_t>(tasks.size()),
        [&](UnitWorker& worker, std::int64_t i) -> Result<void> {
          const auto [t, u] = tasks[static_cast<std::size_t>(i)];
          auto done = do_unit(worker, window[t], u, options, *plan, *output);
          if (!done)
            return fail(done.error().code,
                        fmt::format("tensor {}: {}", in_quotes(window[t].plan->source->name),
                                    done.error().message));
          const SourceTensor& read = *window[t].plan->source;
          const std::int64_t blocks = window[t].units[u].elements() / read.type->elements;
          const std::lock_guard lock(drawing);
          progress.advance(static_cast<std::uint64_t>(blocks * read.type->bytes), read.name);
          return done;
        });
    if (!ok) return ok;
    for (const TensorRun& run : window) {
      if (run.plan->action == Action::integers)
        if (auto written = write_shared(run, *output); !written) return written;
      add_to_report(run, options, report);
    }
    window.clear();
    kept.clear();
    pending = shared = 0;
    return {};
  };
  const auto keep = [&](TensorRun& run) -> Result<void> {
    const SourceTensor& t = *run.plan->source;
    const std::size_t bytes = bytes_for(*CheckpointSource::float_dtype(*t.type), t.elements());
    if (!KeptFloats::can_hold(bytes)) return {};
    run.job.kept = kept.take(bytes);
    if (run.job.kept != nullptr) return {};
    if (auto ok = flush(); !ok) return ok;
    run.job.kept = kept.take(bytes);
    return {};
  };
  const auto start = [&](TensorRun run, bool shares) -> Result<void> {
    if (options.format == CheckpointFormat::compressed_tensors) run.job.bytes = CodeBytes::offset;
    run.done.resize(run.units.size());
    pending += run.units.size();
    window.push_back(std::move(run));
    TensorRun& last = window.back();
    if (shares)
      if (auto ok = find_shared_scales(pool, last.job, last.units, last.shared); !ok) return ok;
    shared += last.bytes_shared();
    return pending >= kUnitsTogether || shared >= kMostShared ? flush() : Result<void>{};
  };
  for (const TensorPlan& t : plan->tensors) {
    auto units = units_of(t, options);
    TensorRun run{
        .plan = &t,
        .job = {.source = &in, .tensor = t.source, .scheme = &t.scheme, .method = options.method},
        .units = {}};
    const bool in_units = holds_whole_groups(group_layout(t.scheme), units) &&
                          (options.method == Method::rtn || group_layout(t.scheme).outer == 1);
    if (t.action != Action::integers || in_units) {
      run.units = std::move(units);
      if (t.action == Action::integers) gather_scales(run);
      if (auto ok = start(std::move(run), false); !ok) return tl::unexpected(ok.error());
      continue;
    }
    auto parts = by_channels(std::move(units), kChannelsTogether);
    if (parts.size() == 1)
      if (auto ok = keep(run); !ok) return tl::unexpected(ok.error());
    for (auto& part : parts) {
      TensorRun some = run;
      some.units = std::move(part);
      if (auto ok = start(std::move(some), true); !ok) return tl::unexpected(ok.error());
      run.first = false;
    }
  }
  if (auto ok = flush(); !ok) return tl::unexpected(ok.error());
  if (options.strict)
    if (auto ok = refuse_non_finite(report); !ok) return tl::unexpected(ok.error());
  if (auto ok = output->commit(); !ok) return tl::unexpected(ok.error());
  return report;
}

}  // namespace planck::cli
