// Trains a GPT on any text file and writes on. `gpt --help` says what there is.
//
//   gpt FILE --preset 10m --checkpoint run.safetensors
//   mpirun -np 3 gpt FILE --grains 6
//
// Without arguments: a few steps on this project's license.
//
// Prints loss, tokens per second and the time left, the most memory it had, some text, and a hash
// of the weights: the same for any number of threads and workers, on CPU and GPU, and for a run
// that was killed and went on.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "log.h"
#include "planck/core/allocator.h"
#include "planck/dist/transport/mpi.h"
#include "run.h"

namespace {

using namespace gpt;

constexpr const char* kHelp = R"(gpt FILE [OPTION VALUE]... trains a GPT on a text and writes on.

  --preset NAME      tiny, 10m, 124m: how many parameters; of bytes, tiny of printable ASCII (tiny)
  --dtype NAME       of the weights: f32, bf16, f16, f64 (f32)
  --math NAME        of products: chain, exact, tensor_core (the dtype's own: chain, or tensor_core
                     for bf16 and f16)
  --steps N          (1000)
  --batch N          sequences per step (16)
  --length N         tokens of a sequence (128)
  --grains N         parts of a batch, which workers share: mpirun -np W gpt ... (1)
  --rate R           the highest (1e-3; 124m: 6e-4)
  --seed N           (1)
  --recompute        blocks are computed again for their gradients: less memory, the same bits
  --checkpoint FILE  written every --every steps and at the end; runs go on from it
  --every N          (200)
  --log PREFIX       what each worker did, to PREFIX.0.jsonl, PREFIX.1.jsonl, ...
  --sample N         bytes to write at the end (200), after --prompt TEXT, at --temperature T (0.8)
  --threads N        0: as many as there are cores (0)
  --device NAME      cpu, cuda (cpu)
  --help
)";

struct Arguments {
  std::string file;
  bool help = false, recompute = false;
  std::map<std::string, std::string, std::less<>> values = {
      {"preset", "tiny"}, {"dtype", "f32"},       {"steps", "1000"}, {"batch", "16"},
      {"length", "128"},  {"rate", ""},           {"seed", "1"},     {"threads", "0"},
      {"device", "cpu"},  {"checkpoint", ""},     {"every", "200"},  {"sample", "200"},
      {"prompt", "\n"},   {"temperature", "0.8"}, {"math", ""},      {"grains", "1"},
      {"log", ""}};

  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (!word.starts_with("--")) {
        if (!file.empty()) refuse("gpt: two files, {} and {}", {file, word});
        file = word;
        continue;
      }
      if (word == "--help" || word == "--recompute") {
        (word == "--help" ? help : recompute) = true;
        continue;
      }
      const auto at = values.find(word.substr(2));
      if (at == values.end()) refuse("gpt: there is no option {}; gpt --help", {word});
      if (++i == argc) refuse("gpt: {} needs a value", {word});
      at->second = argv[i];
    }
    if (argc == 1) {  // a look at it
      file = DEFAULT_TEXT;
      for (const auto& [name, value] :
           {std::pair{"steps", "40"}, {"batch", "8"}, {"length", "64"}, {"sample", "60"}})
        values[name] = value;
    }
    if (file.empty() && !help) refuse("gpt: which text? {}", {"gpt --help"});
  }
  const std::string& text(std::string_view name) const { return values.find(name)->second; }
  double number(std::string_view name, double lowest) const {
    const std::string& given = text(name);
    char* end = nullptr;
    const double value = std::strtod(given.c_str(), &end);
    if (given.empty() || *end != '\0' || !(value >= lowest && value < 1e300))
      refuse("gpt: --{} is {}, it must be a number from {} on", {name, given, lowest});
    return value;
  }
  std::int64_t count(std::string_view name, double lowest) const {
    const double value = number(name, lowest);
    if (value != std::floor(value) || value > 0x1p53)
      refuse("gpt: --{} is {}, it must be a whole number", {name, text(name)});
    return static_cast<std::int64_t>(value);
  }
};

RunOptions options_of(const Arguments& a) {
  RunOptions o;
  bool known = false;
  for (const auto& [name, size] : kPresets)
    if (name == a.text("preset")) {
      o.size = size;
      known = true;
    }
  if (!known) refuse("gpt: there is no preset {}; tiny, 10m, 124m", {a.text("preset")});
  const auto dtype = parse_dtype(a.text("dtype"));
  if (!dtype || !is_float(*dtype))
    refuse("gpt: --dtype is {}; f32, bf16, f16 or f64", {a.text("dtype")});
  o.dtype = *dtype;
  o.batch = a.count("batch", 1);
  o.length = a.count("length", 2);
  o.steps = a.count("steps", 1);
  o.grains = a.count("grains", 1);
  o.recompute = a.recompute;
  o.seed = static_cast<std::uint64_t>(a.count("seed", 0));
  o.rate =
      a.text("rate").empty() ? (a.text("preset") == "124m" ? 6e-4 : 1e-3) : a.number("rate", 0);
  return o;
}

// The device, with what products mean on it.
Stream with_math(const Arguments& a, const Stream& device) {
  if (a.text("math").empty()) return device;
  const auto math = parse_product_math(a.text("math"));
  if (!math) refuse("gpt: --math is {}; chain, exact or tensor_core", {a.text("math")});
  const auto dtype = parse_dtype(a.text("dtype"));
  if (dtype && !serves(*math, *dtype))
    refuse("gpt: --math {} is not defined for {}", {name(*math), *dtype});
  return device.with_math(*math);
}

std::string clock_of(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

template <class A>
int train(const Arguments& a, const Stream& device, dist::Communicator& workers) {
  const RunOptions options = options_of(a);
  const Tokens tokens(options.size.vocabulary);
  const std::string text = read_file(a.file);
  Run<A> run(options, text, device, &workers);
  if (workers.size() > 1) dist::check_same(workers, "gpt " + run.description());
  const std::string& checkpoint = a.text("checkpoint");
  const std::int64_t every = a.count("every", 1);
  const bool speaks = workers.rank() == 0;
  if (speaks) {
    fmt::print("{} parameters of {}, {} tokens a step\n", run.parameters(), name(options.dtype),
               options.batch * options.length);
    if (const std::int64_t replaced = tokens.replaced(text); replaced > 0)
      fmt::print("{} of {} bytes are no printable ASCII: read as '?', tabs as blanks\n", replaced,
                 text.size());
    if (options.grains < workers.size())
      fmt::print("{} workers, of which {} have a grain: --grains {}\n", workers.size(),
                 options.grains, workers.size());
  }
  if (!checkpoint.empty() && std::filesystem::exists(checkpoint)) {
    run.resume(checkpoint);
    if (speaks) fmt::print("goes on from step {} of {}\n", run.step_count(), checkpoint);
  }
  if (const auto differs = dist::difference(workers, run.model()))
    raise(ErrorCode::device, *differs);
  const auto started = std::chrono::steady_clock::now();
  const std::int64_t first = run.step_count();
  StepLog steps_log(a.text("log"), workers.rank(), workers.size(), first > 0);
  const std::int64_t shown = std::max<std::int64_t>(1, options.steps / 50);
  std::size_t kept = 0;  // from step to step: weights and what the optimizer has
  while (run.step_count() < options.steps) {
    (void)run.step();
    const std::int64_t done = run.step_count();
    if (done == first + 1) kept = allocator_stats(device.device()).in_use;
    const bool shows = done % shown == 0 || done == options.steps || done == first + 1;
    if (shows && (speaks || !a.text("log").empty())) {
      const double loss = run.loss();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
      steps_log.step(done, loss, took.count(), run.seconds_waited());
      if (speaks) {
        const double each = took.count() / static_cast<double>(done - first);
        fmt::print("step {:6}/{}   loss {:.4f}   {:.1f} k tokens/s   {} left\n", done,
                   options.steps, loss,
                   static_cast<double>(options.batch * options.length) / each / 1e3,
                   clock_of(each * static_cast<double>(options.steps - done)));
        std::fflush(stdout);
      }
    }
    if (!checkpoint.empty() && (done % every == 0 || done == options.steps)) run.save(checkpoint);
  }
  if (!speaks) return 0;
  if (const std::string& why = run.why_not_recorded();
      device.device().kind == DeviceKind::cuda && !why.empty())
    fmt::print("steps were not recorded: {}\n", why);
  const std::size_t peak = allocator_stats(device.device()).peak;
  fmt::print("peak memory {:.1f} MiB, {:.1f} of them a step's activations and gradients\n",
             static_cast<double>(peak) / 0x1p20,
             static_cast<double>(peak - std::min(kept, peak)) / 0x1p20);
  if (a.count("sample", 0) > 0) {
    const NoGrad no_graph;
    const auto written = sample(run.model(), tokens.encoded(a.text("prompt")),
                                {.count = a.count("sample", 0),
                                 .temperature = a.number("temperature", 0),
                                 .seed = options.seed});
    fmt::print("---\n{}\n---\n", tokens.decoded(written));
  }
  fmt::print("weights sha256 {}\n", run.hash());
  return 0;
}

// Workers of one machine share its cores, unless they are bound to cores of their own, and its GPUs
// in turn.
int on_device(const Arguments& a, dist::Communicator& workers) {
  const std::string& device = a.text("device");
  if (device != "cpu" && device != "cuda") refuse("gpt: --device is {}; cpu or cuda", {device});
  auto threads = static_cast<int>(a.count("threads", 0));
  if (threads == 0) threads = workers.cores();
  const int gpus = std::max(1, static_cast<int>(Cuda::device_count()));
  const Stream stream = device == "cpu" ? Stream::cpu(threads)
                                        : value_or_throw(Stream::cuda(workers.local_rank() % gpus));
  return with_backend_of(stream, [&]<class B>(std::type_identity<B>) {
    return train<Autodiff<B>>(a, with_math(a, stream), workers);
  });
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a(argc, argv);
  if (a.help) return std::fputs(kHelp, stdout) < 0 ? 1 : 0;
  dist::Alone alone;
  if (!dist::Mpi::launched()) return on_device(a, alone);
  const auto workers = value_or_throw(dist::Mpi::join());
  return dist::or_abort(*workers, "gpt", [&] { return on_device(a, *workers); });
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
