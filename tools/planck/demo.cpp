// planck demo: trains a model, quantizes it, and tells what each form costs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "planck/core/cuda/runtime.h"
#include "planck/dist/transport/mpi.h"
#include "planck/dist/transport/staged.h"
#include "planck/io/output_file.h"
#include "planck/verify/cpu_targets.h"
#include "tools/planck/commands.h"
#include "tools/planck/device_option.h"
#include "tools/planck/digits/training.h"
#include "tools/planck/output_option.h"
#include "tools/planck/progress.h"
#include "tools/planck/report/report.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

// The model's memory grows with both; a file can claim any.
constexpr std::int64_t kLargestSide = 256, kMostClasses = 1024;

struct DemoArguments {
  std::string data, folder = "planck-demo", cpu_target, log, math;
  std::int64_t batch = digits::RunOptions{}.batch;
  std::int64_t epochs = digits::RunOptions{}.epochs, qat_epochs = digits::RunOptions{}.qat_epochs;
  bool fresh = false, force = false;
  std::string sums = "host";
  DeviceOption device;
};

std::string table_of(const digits::Outcome& outcome) {
  using enum Table::Align;
  Table table({{"model"}, {"accuracy", right}, {"size", right}, {"µs per image", right}});
  for (const digits::Measured& m : outcome.models)
    table.add({m.name, fmt::format("{:.2f} %", 100 * m.accuracy), size_text(m.bytes),
               fmt::format("{:.1f}", m.microseconds_per_image)});
  return table.text();
}

// Weights of a layer: of the float model, and what the integers of the other stand for.
TrainingReport::Histogram histogram_of(const nn::StateDict& floats, const nn::StateDict& integers,
                                       const std::string& layer) {
  const auto stream = Stream::cpu(1);
  const std::string name = layer + ".weight";
  const auto before = nn::to_tensor<Cpu, FloatKind>(floats.at(name), stream);
  const auto codes = nn::to_tensor<Cpu, IntKind>(integers.at(name), stream);
  const auto scale = nn::to_tensor<Cpu, FloatKind>(integers.at(name + "_scale"), stream);
  const QuantScheme scheme{.granularity = Granularity::per_channel, .dtype = codes.dtype()};
  const auto after =
      dequantize(QuantizedTensor<Cpu>{codes, scale, to_int(zeros_like(scale), Dtype::i32), scheme});
  const std::int64_t rows = before.extent(0);  // packed rows may be one element longer
  return {fmt::format("{} as {}", layer, planck::name(codes.dtype())), before.to_vector<float>(),
          slice(reshape(after, {rows, -1}), 1, 0, before.numel() / rows).to_vector<float>()};
}

TrainingReport report_of(const digits::Outcome& outcome, const digits::RunOptions& options,
                         const std::string& data, const std::string& device) {
  TrainingReport report;
  report.title = fmt::format("Planck: {}, trained and quantized", data);
  report.device = device;
  report.weights_sha256 = outcome.sha256;
  const auto all = digits::stages(options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& c = outcome.curves[i];
    report.curves.push_back(
        {all[i].name, {c.loss.begin(), c.loss.end()}, {c.accuracy.begin(), c.accuracy.end()}});
  }
  for (const digits::Measured& m : outcome.models)
    report.models.push_back({m.name, m.accuracy, m.bytes, m.microseconds_per_image});
  for (const digits::SeenPair& p : outcome.pairs)
    report.digits.push_back({options.side, options.side, p.before, p.after, p.label, p.predicted});
  const auto& models = outcome.float_and_integers;
  for (const char* layer : {"conv1", "conv2", "hidden", "output"})
    report.weights.push_back(histogram_of(models[0].state, models.back().state, layer));
  return report;
}

Result<void> write_text(const std::string& path, const std::string& text) {
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(text))); !ok) return ok;
  return file->commit();
}

// Where this worker computes: workers of one machine share its cores, and its GPUs in turn.
Result<Stream> stream_of(DeviceOption device, const dist::Communicator& workers) {
  if (workers.local_size() > 1) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    if (device.threads == 0) device.threads = std::max(1, cores / workers.local_size());
    if (const int gpus = cuda::device_count(); device.device == "cuda" && gpus > 1)
      device.device = fmt::format("cuda:{}", workers.local_rank() % gpus);
  }
  return device.stream();
}

// One line of JSON for each epoch of this worker.
class Log {
 public:
  Log(const std::string& prefix, const dist::Communicator& workers) : workers_(workers) {
    if (prefix.empty()) return;
    path_ = fmt::format("{}.{}.jsonl", prefix, workers.rank());
    file_.open(path_, std::ios::trunc);
    if (!file_) raise(ErrorCode::io, fmt::format("{}: cannot be written", path_));
  }
  void epoch(const digits::Step& s, double seconds) {
    if (path_.empty()) return;
    file_
        << fmt::format(
               R"({{"rank": {}, "workers": {}, "stage": "{}", "epoch": {}, "step": {}, "loss": {}, "seconds": {:.6f}, "waited": {:.6f}}})",
               workers_.rank(), workers_.size(), s.stage.name, s.epoch + 1, s.step, s.loss, seconds,
               s.waited)
        << std::endl;
    if (!file_) raise(ErrorCode::io, fmt::format("{}: cannot be written", path_));
  }

 private:
  const dist::Communicator& workers_;
  std::string path_;
  std::ofstream file_;
};

Result<int> demo(const DemoArguments& a, dist::Communicator& workers) {
  const bool first = workers.rank() == 0;  // it writes, and talks
  // Sent to all when one of them fails, which has said why.
  if (workers.size() > 1) (void)std::signal(SIGTERM, SIG_DFL);
  if (!a.cpu_target.empty())
    if (auto ok = verify::restrict_cpu_target(a.cpu_target); !ok) return tl::unexpected(ok.error());
  const auto stream = stream_of(a.device, workers);
  if (!stream) return tl::unexpected(stream.error());
  if (a.epochs < 1 || a.qat_epochs < 1)
    return fail(ErrorCode::invalid_problem,
                fmt::format("--epochs is {} and --qat-epochs {}; both must be at least 1", a.epochs,
                            a.qat_epochs));
  if (a.batch < 1)
    return fail(ErrorCode::invalid_problem,
                fmt::format("--batch is {}, must be at least 1", a.batch));
  const auto data = load_image_data(a.data);
  if (!data) return tl::unexpected(data.error());
  if (data->train.height > kLargestSide || data->train.width > kLargestSide ||
      data->train.classes > kMostClasses)
    return fail(
        ErrorCode::invalid_problem,
        fmt::format("--data {}: pictures of {} x {} in {} classes; the demo takes up to {} x "
                    "{} in {}",
                    a.data, data->train.height, data->train.width, data->train.classes,
                    kLargestSide, kLargestSide, kMostClasses));
  std::error_code failed;
  if (first) std::filesystem::create_directories(a.folder, failed);
  if (failed)
    return fail(ErrorCode::io, fmt::format("{}: cannot create: {}", a.folder, failed.message()));

  digits::RunOptions options;
  options.epochs = a.epochs;
  options.qat_epochs = a.qat_epochs;
  options.batch = a.batch;
  if (!a.math.empty()) options.math = parse_product_math(a.math);
  options.checkpoint = a.folder + "/checkpoint.safetensors";
  if (data->train.height > options.side || data->train.width > options.side)
    options.side = (std::max(data->train.height, data->train.width) + 3) / 4 * 4;
  if (a.fresh && first) std::filesystem::remove(options.checkpoint, failed);
  const bool goes_on = first && std::filesystem::exists(options.checkpoint, failed);
  for (const char* name : {"model", "model-int8", "model-int4"})
    if (auto ok =
            check_output("", fmt::format("{}/{}.safetensors", a.folder, name), a.force || goes_on);
        first && !ok)
      return tl::unexpected(ok.error());
  if (goes_on) {
    const auto before = digits::read_snapshot(options.checkpoint, options.fingerprint(*data),
                                              digits::stages(options).size());
    if (!before) return tl::unexpected(before.error());
    print("Going on where the run of {} stopped.\n", printable(options.checkpoint));
  }
  const InterruptHint hint(
      "demo",
      fmt::format("the same command goes on from the last epoch, in {}; --fresh starts over",
                  options.checkpoint));
  const std::string device = to_string(stream->device());
  const std::string on = workers.size() == 1
                             ? device
                             : fmt::format("{} workers, the first on {}", workers.size(), device);
  if (first)
    print("{}: {} pictures to learn from, {} to test on, distorted anew each time; on {}.\n",
          data->name, data->train.count, data->test.count, on);
  std::fflush(stdout);

  std::uint64_t total = 0;
  for (const digits::Stage& s : digits::stages(options))
    total += static_cast<std::uint64_t>(s.epochs);
  const auto outcome = [&] {
    Progress progress(total, Progress::Unit::steps);
    Log log(a.log, workers);
    auto begin = std::chrono::steady_clock::now();
    std::string stage;
    std::uint64_t before = 0, epochs = 0;
    std::optional<dist::Staged> on_device;
    if (a.sums == "device") on_device.emplace(workers, *stream);
    dist::Communicator& summing = on_device ? *on_device : workers;
    return digits::run(options, *data, *stream, summing, [&](const digits::Step& s) {
      if (s.step % (s.steps / s.stage.epochs) == 0) {
        const auto now = std::chrono::steady_clock::now();
        log.epoch(s, std::chrono::duration<double>(now - begin).count());
        begin = now;
      }
      if (!first) return;
      if (stage != s.stage.name) {
        stage = s.stage.name;
        before = 0;
        for (const digits::Stage& other : digits::stages(options)) {
          if (other.name == stage) break;
          before += static_cast<std::uint64_t>(other.epochs);
        }
        epochs = static_cast<std::uint64_t>(s.stage.epochs);
      }
      progress.reach(
          before + static_cast<std::uint64_t>(s.epoch), total,
          fmt::format("{} {}/{} loss {:.3f}, {:.1f} %, {:.0f} images/s", stage, s.epoch + 1, epochs,
                      s.loss, 100 * s.accuracy, s.images_per_second));
    });
  }();

  if (!first) return outcome.integers_equal ? kOk : kBroken;
  const auto& models = outcome.float_and_integers;
  const std::string page = a.folder + "/report.html";
  for (auto ok : {digits::save_net(a.folder + "/model.safetensors", models[0]),
                  digits::save_net(a.folder + "/model-int8.safetensors", models[1]),
                  digits::save_net(a.folder + "/model-int4.safetensors", models[2]),
                  write_text(page, report_html(report_of(outcome, options, data->name, device)))})
    if (!ok) return tl::unexpected(ok.error());
  std::filesystem::remove(options.checkpoint, failed);

  print("\n{}\n", table_of(outcome));
  if (outcome.images_per_second > 0)
    print("float training: {:.0f} images/s{}\n", outcome.images_per_second,
          workers.size() == 1
              ? ""
              : fmt::format(" on {} workers, {:.1f} % of the time waiting for others",
                            workers.size(), 100 * outcome.waited));
  print("integer models give the logits of the rounded ones, bit for bit: {}\n",
        outcome.integers_equal ? "yes" : "NO");
  print("weights sha256 {}\n\n", outcome.sha256);
  print(
      "In {}: model.safetensors, model-int8.safetensors, model-int4.safetensors, report.html. "
      "Next:\n"
      "  planck eval {}/model-int8.safetensors\n"
      "  planck inspect {}/model-int8.safetensors\n",
      printable(a.folder), printable(a.folder), printable(a.folder));
  return outcome.integers_equal ? kOk : kBroken;
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<DemoArguments>();
  CLI::App* command = app.add_subcommand(
      "demo", "Train a model, quantize it after and in training, convert it to integers, compare");
  command->add_option("--data", a->data,
                      "Folder with MNIST's IDX files, or with images.npy and labels.npy; left "
                      "out: the digits that come with Planck");
  command->add_option("--out", a->folder, "Folder for the files; made if it is missing")
      ->capture_default_str();
  command->add_option("--epochs", a->epochs, "Epochs of float training")->capture_default_str();
  command->add_option("--qat-epochs", a->qat_epochs, "Epochs with quantization in the loop, each")
      ->capture_default_str();
  command->add_option("--batch", a->batch, "Pictures of a batch, of all workers together")
      ->capture_default_str();
  command
      ->add_option("--math", a->math,
                   "What products of f32 mean: chain (fused multiply-adds in order, as left out), "
                   "exact (integers, rounded once) or tensor_core (TF32); each has weights of its "
                   "own, the same on every device (docs/tensor_cores.md)")
      ->check(CLI::IsMember({"chain", "exact", "tensor_core"}));
  command->add_option(
      "--log", a->log,
      "Write what each worker did, a line of JSON for each epoch, to LOG.RANK.jsonl");
  command
      ->add_option("--sums", a->sums,
                   "Where gradients of grains and workers are added: in memory of the host, or of "
                   "the device, from where MPI sends them. The weights do not change")
      ->check(CLI::IsMember({"host", "device"}))
      ->capture_default_str();
  command->add_flag("--fresh", a->fresh, "Start over where an unfinished run left a checkpoint");
  command->add_flag("-f,--force", a->force, "Replace the models of a run that ended");
  command->add_option(
      "--cpu-target", a->cpu_target,
      "As if this CPU had no more than avx512, avx2 or baseline; the weights must not change");
  a->device.add_to(*command);
  command->footer(
      "The weights are a function of data and epochs: their sha256 is the same on every CPU, "
      "number "
      "of\nthreads and GPU, for a run that was killed and started again, and for any number of "
      "workers\nunder mpirun.\n\n"
      "Examples:\n"
      "  planck demo\n"
      "  planck demo --device cuda --out /tmp/demo\n"
      "  mpirun -np 4 planck demo\n"
      "  planck demo --data ~/mnist --epochs 5 --qat-epochs 2");
  command->callback([a, &exit_code] {
    try {
      if (dist::Mpi::launched()) {
        const auto workers = value_or_throw(dist::Mpi::join());
        exit_code = dist::or_abort(*workers, "planck demo",
                                   [&] { return value_or_throw(demo(*a, *workers)); });
        return;
      }
      dist::Alone alone;
      const auto done = demo(*a, alone);
      exit_code = done ? *done : bad_input("demo", done.error());
    } catch (const Exception& e) {
      exit_code = bad_input("demo", e.what());
    }
  });
}

}  // namespace planck::cli
