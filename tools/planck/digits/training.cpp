#include "tools/planck/digits/training.h"

#include <fmt/format.h>

#include <filesystem>

#include "tools/planck/digits/run.h"

namespace planck::digits {

std::string RunOptions::fingerprint(const ImageData& data) const {
  return fmt::format(
      "{} ({} + {} pictures), {} + {} epochs, batches of {} in grains of {}, side {}, "
      "seed {}{}{}{}{}",
      data.name, data.train.count, data.test.count, epochs, qat_epochs, batch, grain, side, seed,
      math ? ", math " : "", math ? name(*math) : "", dtype == Dtype::f32 ? "" : ", dtype ",
      dtype == Dtype::f32 ? "" : name(dtype));
}

std::vector<Stage> stages(const RunOptions& o) {
  const auto rounded = [](Dtype dtype) {
    return Form{Form::Kind::rounded, dtype, Granularity::per_channel, true};
  };
  return {{"float", {}, o.epochs, 4e-3},
          {"s8", rounded(Dtype::s8), o.qat_epochs, 5e-4},
          {"s4", rounded(Dtype::s4), o.qat_epochs, 2e-3}};
}

nn::StateDict state_of(const Snapshot& s) {
  nn::StateDict all = nn::with_prefix("model.", s.model);
  all.merge(nn::with_prefix("optimizer.", s.optimizer));
  all.merge(nn::with_prefix("loss_scale.", s.loss_scale));
  for (std::size_t i = 0; i < s.finished.size(); ++i)
    all.merge(nn::with_prefix(fmt::format("finished.{}.", i), s.finished[i]));
  for (std::size_t i = 0; i < s.curves.size(); ++i) {
    all[fmt::format("curves.{}.loss", i)] = nn::entry_of(std::span<const double>(s.curves[i].loss));
    all[fmt::format("curves.{}.accuracy", i)] =
        nn::entry_of(std::span<const double>(s.curves[i].accuracy));
  }
  const std::int64_t at[] = {static_cast<std::int64_t>(s.stage), s.epoch};
  all["at"] = nn::entry_of(std::span<const std::int64_t>(at));
  return all;
}

Snapshot snapshot_of(const nn::StateDict& all, std::size_t stages) {
  Snapshot s;
  const auto at = nn::find_integers(all, "at", 2);
  if (at[0] < 0 || at[0] > static_cast<std::int64_t>(stages) || at[1] < 0)
    raise(ErrorCode::invalid_problem, "is damaged: no such stage");
  s.stage = static_cast<std::size_t>(at[0]);
  s.epoch = at[1];
  s.model = nn::without_prefix("model.", all);
  s.optimizer = nn::without_prefix("optimizer.", all);
  s.loss_scale = nn::without_prefix("loss_scale.", all);
  for (std::size_t i = 0; i < s.stage; ++i)
    s.finished.push_back(nn::without_prefix(fmt::format("finished.{}.", i), all));
  for (std::size_t i = 0; i < stages; ++i) {
    const auto part = [&](std::string_view what) {
      const std::string name = fmt::format("curves.{}.{}", i, what);
      const auto found = all.find(name);
      const std::int64_t count = found == all.end() ? 0 : numel(found->second.shape);
      return nn::find_numbers(all, name, count);
    };
    s.curves.push_back({part("loss"), part("accuracy")});
  }
  return s;
}

Result<void> save_snapshot(const std::string& path, const Snapshot& s,
                           const std::string& fingerprint) {
  return nn::save_state(path, state_of(s), {{"run", fingerprint}});
}

Result<Snapshot> read_snapshot(const std::string& path, const std::string& fingerprint,
                               std::size_t stages) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Snapshot{};
  auto saved = nn::read_state(path);
  if (!saved) return tl::unexpected(saved.error());
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", path, what));
  };
  const auto run = saved->metadata.find("run");
  if (run == saved->metadata.end()) return bad("not the checkpoint of a run");
  if (run->second != fingerprint)
    return bad(fmt::format("belongs to another run: {}; this one is {}; --fresh starts over",
                           run->second, fingerprint));
  try {
    return snapshot_of(saved->state, stages);
  } catch (const Exception& e) {
    return bad(e.what());
  }
}

Outcome run(const RunOptions& options, const ImageData& data, const Stream& stream,
            dist::Communicator& workers, const Watch& watch) {
  return with_backend_of(stream, [&]<class B>(std::type_identity<B>) {
    return On<B>::run(options, data, stream, workers, watch);
  });
}
Verdicts verdicts(const StoredNet& net, const ImageSet& set, std::uint64_t seed,
                  const Stream& stream) {
  return with_backend_of(stream, [&]<class B>(std::type_identity<B>) {
    return On<B>::verdicts(net, set, seed, stream);
  });
}
std::vector<float> logits(const StoredNet& net, const ImageSet& pictures, const Stream& stream) {
  return with_backend_of(
      stream, [&]<class B>(std::type_identity<B>) { return On<B>::logits(net, pictures, stream); });
}

}  // namespace planck::digits
