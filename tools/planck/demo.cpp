// planck demo: trains a model, quantizes it, and tells what each form costs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "planck/core/cuda/runtime.h"
#include "planck/dist/state.h"
#include "planck/dist/transport/mpi.h"
#include "planck/dist/transport/nccl.h"
#include "planck/dist/transport/staged.h"
#include "planck/io/output_file.h"
#include "planck/io/sha256.h"
#include "planck/verify/cpu_targets.h"
#include "tools/planck/commands.h"
#include "tools/planck/digits/demo_progress.h"
#include "tools/planck/digits/onnx.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/output_option.h"
#include "tools/planck/print/table.h"
#include "tools/planck/report/demo_results.h"

namespace planck::cli {

namespace {

// The model's memory grows with both; a file can claim any.
constexpr std::int64_t kLargestSide = 256, kMostClasses = 1024;

struct DemoArguments {
  std::string data, folder = "planck-demo", cpu_target, log, math, dtype = "f32";
  std::int64_t batch = digits::RunOptions{}.batch;
  std::int64_t epochs = digits::RunOptions{}.epochs, qat_epochs = digits::RunOptions{}.qat_epochs;
  bool fresh = false, force = false, json = false;
  std::string sums = "host";
  DeviceOption device;
};

Result<void> write_text(const std::string& path, const std::string& text) {
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(text))); !ok) return ok;
  return file->commit();
}

// Where this worker computes: workers of one machine share its cores, unless they are bound to
// cores of their own, and its GPUs in turn.
Result<Stream> stream_of(DeviceOption device, const dist::Communicator& workers) {
  if (device.threads == 0) device.threads = workers.cores();
  if (device.device == "cuda" && workers.local_size() > 1)
    if (const int gpus = cuda::device_count(); gpus > 1)
      device.device = fmt::format("cuda:{}", workers.local_rank() % gpus);
  return device.stream();
}

// Every number and name of the command line that can be judged without data.
Result<void> check_arguments(const DemoArguments& a) {
  const auto bad = [](std::string message) {
    return fail(ErrorCode::invalid_problem, std::move(message));
  };
  const auto dtype = parse_dtype(a.dtype);
  if (!dtype || !is_float(*dtype))
    return bad(fmt::format(
        "--dtype is {}, must be f32, bf16, f16 or f64: what is trained; integers are made of any",
        a.dtype));
  const auto math = parse_product_math(a.math);
  if (math && !serves(*math, *dtype))
    return bad(
        fmt::format("--math is {}, which products of {} (--dtype) cannot be", a.math, a.dtype));
  if (a.epochs < 1 || a.qat_epochs < 1)
    return bad(fmt::format("--epochs is {} and --qat-epochs {}; both must be at least 1", a.epochs,
                           a.qat_epochs));
  if (a.batch < 1) return bad(fmt::format("--batch is {}, must be at least 1", a.batch));
  return {};
}

Result<ImageData> load_data(const DemoArguments& a) {
  auto data = load_image_data(a.data);
  if (!data) return data;
  const ImageSet& set = data->train;
  if (set.height > kLargestSide || set.width > kLargestSide || set.classes > kMostClasses)
    return fail(
        ErrorCode::invalid_problem,
        fmt::format("--data {}: pictures of {} x {} in {} classes; the demo takes up to {} x "
                    "{} in {}",
                    a.data, set.height, set.width, set.classes, kLargestSide, kLargestSide,
                    kMostClasses));
  return data;
}

digits::RunOptions options_of(const DemoArguments& a, const ImageData& data) {
  digits::RunOptions options;
  options.epochs = a.epochs;
  options.qat_epochs = a.qat_epochs;
  options.batch = a.batch;
  options.dtype = *parse_dtype(a.dtype);
  if (!a.math.empty()) options.math = parse_product_math(a.math);
  options.checkpoint = a.folder + "/checkpoint.safetensors";
  if (data.train.height > options.side || data.train.width > options.side)
    options.side = (std::max(data.train.height, data.train.width) + 3) / 4 * 4;
  return options;
}

// What all workers must have been given.
std::string what_runs(const DemoArguments& a, const digits::RunOptions& options,
                      const ImageData& data) {
  Sha256 hash;
  for (const ImageSet* set : {&data.train, &data.test}) {
    hash.update(std::as_bytes(std::span(set->pixels)));
    hash.update(std::as_bytes(std::span(set->labels)));
  }
  // Where the data lie may differ.
  return fmt::format("planck {}, {}, data {}{}", PLANCK_VERSION,
                     options.fingerprint(data).substr(data.name.size() + 1),
                     hash.hex().substr(0, 16), a.sums == "nccl" ? ", sums nccl" : "");
}

constexpr std::string_view kModels[] = {"model", "model-int8", "model-int4"};
std::string model_stem(const DemoArguments& a, std::size_t i) {
  return fmt::format("{}/{}", a.folder, kModels[i]);
}
std::string model_path(const DemoArguments& a, std::size_t i) {
  return model_stem(a, i) + ".safetensors";
}

// The folder is there, and has no models of another run. Whether an unfinished run goes on in it.
Result<bool> prepare_folder(const DemoArguments& a, const digits::RunOptions& options,
                            const ImageData& data) {
  std::error_code failed;
  std::filesystem::create_directories(a.folder, failed);
  if (failed)
    return fail(ErrorCode::io, fmt::format("{}: cannot create: {}", a.folder, failed.message()));
  if (a.fresh) std::filesystem::remove(options.checkpoint, failed);
  const bool goes_on = std::filesystem::exists(options.checkpoint, failed);
  for (std::size_t i = 0; i < std::size(kModels); ++i)
    if (auto ok = check_output("", model_path(a, i), a.force || goes_on); !ok)
      return tl::unexpected(ok.error());
  if (!goes_on) return false;
  const auto before = digits::read_snapshot(options.checkpoint, options.fingerprint(data),
                                            digits::stages(options).size());
  if (!before) return tl::unexpected(before.error());
  return true;
}

digits::Outcome train(const DemoArguments& a, const digits::RunOptions& options, bool goes_on,
                      const ImageData& data, const Stream& stream, dist::Communicator& workers) {
  EpochBar bar(options);
  Log log(a.log, workers, goes_on);
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<dist::Communicator> on_device;
  if (a.sums == "device") on_device = std::make_unique<dist::Staged>(workers, stream);
  if (a.sums == "nccl") on_device = value_or_throw(dist::Nccl::join(workers, stream));
  dist::Communicator& summing = on_device ? *on_device : workers;
  return digits::run(options, data, stream, summing, [&](const digits::Step& s) {
    if (s.step % (s.steps / s.stage.epochs) == 0) {
      const auto now = std::chrono::steady_clock::now();
      log.epoch(s, std::chrono::duration<double>(now - begin).count());
      begin = now;
    }
    if (workers.rank() == 0) bar.reach(s);
  });
}

Result<void> write_files(const DemoArguments& a, const DemoResults& results) {
  const auto& models = results.outcome.float_and_integers;
  for (std::size_t i = 0; i < std::size(kModels); ++i)
    if (auto ok = digits::save_net(model_path(a, i), models[i]); !ok) return ok;
  for (std::size_t i = 0; i < std::size(kModels); ++i)
    if (auto ok = digits::write_onnx(model_stem(a, i), models[i]); !ok) return ok;
  if (auto ok = write_text(a.folder + "/results.json", readable(results.json())); !ok) return ok;
  if (auto ok = write_text(a.folder + "/report.html", report_html(results.report())); !ok)
    return ok;
  std::error_code ignored;
  std::filesystem::remove(results.options.checkpoint, ignored);
  return {};
}

// In lines of at most 100 columns.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kColumns = 100;
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t wide = columns_of(word);
    const bool next = used > 0 && used + 1 + wide > kColumns;
    out += next ? "\n" : used > 0 ? " " : "";
    out += word;
    used = next ? wide : used + (used > 0) + wide;
  }
  return out;
}

void tell(const DemoArguments& a, const DemoResults& results) {
  const digits::Outcome& outcome = results.outcome;
  if (a.json) {  // with --quiet, too
    const std::string text = readable(results.json());
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  print("\n{}\n", results.table());
  for (const std::string& finding : results.findings()) print("{}\n", wrapped(finding));
  const int workers = results.made.workers;
  if (outcome.images_per_second > 0)
    print("\nfloat training: {:.0f} images/s{}\n", outcome.images_per_second,
          workers == 1 ? ""
                       : fmt::format(" on {} workers, {:.1f} % of the time waiting for others, "
                                     "{:.1f} % for bytes alone",
                                     workers, 100 * outcome.waited, 100 * outcome.communication));
  print("integer models give the logits of the rounded ones, bit for bit: {}\n",
        outcome.integers_equal ? "yes" : "NO");
  print("weights sha256 {}\n\n", outcome.sha256);
  const std::string folder = printable(a.folder);
  print(
      "In {}: model.safetensors, model-int8.safetensors, model-int4.safetensors, results.json, "
      "report.html.\n{}Next:\n"
      "  planck eval {}/model-int8.safetensors\n"
      "  planck inspect {}/model-int8.safetensors\n",
      folder,
      digits::onnx_files("", outcome.float_and_integers[1]).empty()
          ? ""
          : "For other runtimes: model-int8.onnx and model-int4.onnx, each as .qdq.onnx, too.\n",
      folder, folder);
}

Result<int> demo(const DemoArguments& a, dist::Communicator& workers) {
  const bool first = workers.rank() == 0;  // it writes, and talks
  // Sent to all when one of them fails, which has said why.
  if (workers.size() > 1) (void)std::signal(SIGTERM, SIG_DFL);
  if (!a.cpu_target.empty())
    if (auto ok = verify::restrict_cpu_target(a.cpu_target); !ok) return tl::unexpected(ok.error());
  const auto stream = stream_of(a.device, workers);
  if (!stream) return tl::unexpected(stream.error());
  if (auto ok = check_arguments(a); !ok) return tl::unexpected(ok.error());
  const auto data = load_data(a);
  if (!data) return tl::unexpected(data.error());
  const auto options = options_of(a, *data);
  const Provenance made = provenance(*stream, workers.size());
  if (workers.size() > 1) dist::check_same(workers, what_runs(a, options, *data));
  bool goes_on = false;
  if (first) {
    const auto prepared = prepare_folder(a, options, *data);
    if (!prepared) return tl::unexpected(prepared.error());
    goes_on = *prepared;
    if (goes_on && !a.json)
      print("Going on where the run of {} stopped.\n", printable(options.checkpoint));
    if (!a.json)
      print("{}: {} pictures to learn from, {} to test on, distorted anew each time; on {}{}.\n",
            data->name, data->train.count, data->test.count,
            workers.size() == 1 ? "" : fmt::format("{} workers, the first on ", workers.size()),
            made.device);
  }
  std::fflush(stdout);
  if (workers.size() > 1) workers.broadcast(&goes_on, sizeof goes_on, 0);
  const InterruptHint hint(
      "demo",
      fmt::format("the same command goes on from the last epoch, in {}; --fresh starts over",
                  options.checkpoint));
  DemoResults results{train(a, options, goes_on, *data, *stream, workers), options, made,
                      data->name, data->train.count};
  if (first) {
    if (auto ok = write_files(a, results); !ok) return tl::unexpected(ok.error());
    tell(a, results);
  }
  return results.outcome.integers_equal ? kOk : kBroken;
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
      ->add_option("--dtype", a->dtype,
                   "Of weights and activations in training; the optimizer's own copy of 16-bit "
                   "weights is f32, the loss of f16 is scaled. Each has a hash of its own")
      ->type_name("TEXT:{f32,bf16,f16,f64}")
      ->capture_default_str();
  command
      ->add_option("--math", a->math,
                   "What products mean: chain (fused multiply-adds in order, f32 and f64 left "
                   "out), exact (f32 as integers, rounded once) or tensor_core (bf16 and f16 left "
                   "out; f32 as TF32); each has weights of its own, the same on every device "
                   "(docs/tensor_cores.md)")
      ->check(CLI::IsMember({"chain", "exact", "tensor_core"}));
  command->add_option(
      "--log", a->log,
      "Write what each worker did, a line of JSON for each epoch, to LOG.RANK.jsonl; a run that "
      "goes on appends");
  command
      ->add_option("--sums", a->sums,
                   "Where gradients of grains and workers are added: in memory of the host, or of "
                   "the device, from where MPI sends them, or NCCL, which takes a GPU for each "
                   "worker. The weights do not change")
      ->check(CLI::IsMember({"host", "device", "nccl"}))
      ->capture_default_str();
  command->add_flag("--json", a->json,
                    "Print what results.json holds: accuracies with errors, confusion matrices, "
                    "comparisons, times, version, command and machine");
  command->add_flag("--fresh", a->fresh, "Start over where an unfinished run left a checkpoint");
  command->add_flag("-f,--force", a->force, "Replace the models of a run that ended");
  command->add_option(
      "--cpu-target", a->cpu_target,
      "As if this CPU had no more than avx512, avx2 or baseline; the weights must not change");
  a->device.add_to(*command);
  command->footer(
      "The weights are a function of data, epochs, dtype and math: their sha256 is the same on "
      "every CPU,\nnumber of threads and GPU, for a run that was killed and started again, and "
      "for any number of\nworkers under mpirun.\n\n"
      "Accuracies have intervals of 95 % that count pictures, not their distorted views. The "
      "sentences below\nthe table say where a difference is beyond the error, and where the time "
      "goes. report.html has the\nconfusion matrix and the mistakes; it and results.json have "
      "version, command and machine.\n\n"
      "ONNX files of the integer models are for other runtimes: model-int8.onnx has integer "
      "operators,\nmodel-int8.qdq.onnx is for compilers; --dtype f32 alone has them.\n\n"
      "Examples:\n"
      "  planck demo\n"
      "  planck demo --dtype bf16 --out bf16\n"
      "  planck demo --json -f > results.json\n"
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
