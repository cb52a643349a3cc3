// Trains a GPT on any text file and writes on.
//
//   gpt FILE [--preset tiny|10m|124m] [--dtype f32|bf16|f16] [--steps N] [--batch N] [--length N]
//            [--rate R] [--seed N] [--threads N] [--device cpu|cuda]
//            [--checkpoint FILE]   written every --every steps and at the end; runs go on from it
//            [--every N] [--sample N] [--prompt TEXT] [--temperature T]
//
// Without arguments: a few steps on this project's license.
//
// Prints loss, tokens per second and the time left, some text, and a hash of the weights: the same
// for any number of threads, on CPU and GPU, and for a run that was killed and went on.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "run.h"

namespace {

using namespace gpt;

struct Arguments {
  std::string file;
  std::map<std::string, std::string, std::less<>> values = {
      {"preset", "tiny"}, {"dtype", "f32"},      {"steps", "1000"}, {"batch", "16"},
      {"length", "128"},  {"rate", ""},          {"seed", "1"},     {"threads", "0"},
      {"device", "cpu"},  {"checkpoint", ""},    {"every", "200"},  {"sample", "200"},
      {"prompt", "\n"},   {"temperature", "0.8"}};

  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (!word.starts_with("--")) {
        if (!file.empty()) refuse("gpt: two files, {} and {}", {file, word});
        file = word;
        continue;
      }
      const auto at = values.find(word.substr(2));
      if (at == values.end()) refuse("gpt: there is no option {}", {word});
      if (++i == argc) refuse("gpt: {} needs a value", {word});
      at->second = argv[i];
    }
    if (argc == 1) {  // a look at it
      file = DEFAULT_TEXT;
      for (const auto& [name, value] :
           {std::pair{"steps", "40"}, {"batch", "8"}, {"length", "64"}, {"sample", "60"}})
        values[name] = value;
    }
    if (file.empty()) refuse("gpt: which text? gpt FILE {}", {"[--preset tiny|10m|124m] …"});
  }
  const std::string& text(std::string_view name) const { return values.find(name)->second; }
  double number(std::string_view name, double lowest) const {
    const std::string& given = text(name);
    char* end = nullptr;
    const double value = std::strtod(given.c_str(), &end);
    if (given.empty() || *end != '\0' || !(value >= lowest))
      refuse("gpt: --{} is {}, it must be a number from {} on", {name, given, lowest});
    return value;
  }
  std::int64_t count(std::string_view name, double lowest) const {
    return static_cast<std::int64_t>(number(name, lowest));
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
  o.seed = static_cast<std::uint64_t>(a.count("seed", 0));
  o.rate =
      a.text("rate").empty() ? (a.text("preset") == "124m" ? 6e-4 : 1e-3) : a.number("rate", 0);
  return o;
}

std::string clock_of(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

template <class A>
void train(const Arguments& a, const Stream& device) {
  const RunOptions options = options_of(a);
  const Tokens tokens(options.size.vocabulary);
  Run<A> run(options, read_file(a.file), device);
  const std::string& checkpoint = a.text("checkpoint");
  const std::int64_t every = a.count("every", 1);
  fmt::print("{} parameters of {}, {} tokens a step\n", run.parameters(), name(options.dtype),
             options.batch * options.length);
  if (!checkpoint.empty() && std::filesystem::exists(checkpoint)) {
    run.resume(checkpoint);
    fmt::print("goes on from step {} of {}\n", run.step_count(), checkpoint);
  }
  const auto started = std::chrono::steady_clock::now();
  const std::int64_t first = run.step_count();
  const std::int64_t shown = std::max<std::int64_t>(1, options.steps / 50);
  while (run.step_count() < options.steps) {
    const auto loss = run.step();
    const std::int64_t done = run.step_count();
    if (done % shown == 0 || done == options.steps || done == first + 1) {
      const double value = static_cast<double>(loss.template item<float>());
      if (!(value < 1e30)) refuse("gpt: the loss of step {} is {}", {done, value});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
      const double each = took.count() / static_cast<double>(done - first);
      fmt::print("step {:6}/{}   loss {:.4f}   {:.1f} k tokens/s   {} left\n", done, options.steps,
                 value, static_cast<double>(options.batch * options.length) / each / 1e3,
                 clock_of(each * static_cast<double>(options.steps - done)));
      std::fflush(stdout);
    }
    if (!checkpoint.empty() && (done % every == 0 || done == options.steps)) run.save(checkpoint);
  }
  if (a.count("sample", 0) > 0) {
    const NoGrad no_graph;
    const auto text = sample(run.model(), tokens.encoded(a.text("prompt")),
                             {.count = a.count("sample", 0),
                              .temperature = a.number("temperature", 0),
                              .seed = options.seed});
    fmt::print("---\n{}\n---\n", tokens.decoded(text));
  }
  fmt::print("weights sha256 {}\n", run.hash());
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a(argc, argv);
  const std::string& device = a.text("device");
  if (device == "cpu")
    train<Autodiff<Cpu>>(a, Stream::cpu(static_cast<int>(a.count("threads", 0))));
  else if (device == "cuda")
    train<Autodiff<Cuda>>(a, value_or_throw(Stream::cuda()));
  else
    refuse("gpt: --device is {}; cpu or cuda", {device});
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
