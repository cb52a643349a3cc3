// Some steps of examples/07_gpt, for gpt_losses.py and beside gpt_torch.py: what they take, and
// their losses.
//
//   gpt_steps TEXT [--preset NAME] [--dtype NAME] [--math NAME] [--batch N] [--length N]
//             [--steps N] [--wait-every N] [--threads N] [--device cpu|cuda] [--start FILE]
//             [--unrecorded] [--profile]
//
// Prints one line of JSON. --start writes the weights before the first step, and where the samples
// of every step begin in the text. --wait-every: losses are read, and the device waited for, after
// so many steps; milliseconds are of one. --profile prints where the time of the last step went,
// instead. --unrecorded: kernel by kernel, where others record a step. cpu_milliseconds: of all
// threads. growth_mib: how much larger the process was at its largest than before the first step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <map>

#include "examples/07_gpt/run.h"
#include "planck/backend/profile.h"
#include "planck/core/allocator.h"

namespace {

using namespace planck;
using Clock = std::chrono::steady_clock;

// A line of /proc/self/status, in MiB; 0 where there is none.
double process_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == name + ":" && status >> kib) return kib / 1024;
  return 0;
}

struct Arguments {
  std::string text, profile;
  bool unrecorded = false;
  std::map<std::string, std::string> values = {
      {"preset", "tiny"}, {"dtype", "f32"},   {"math", ""},     {"batch", "64"},
      {"length", "128"},  {"steps", "8"},     {"threads", "2"}, {"device", "cpu"},
      {"start", ""},      {"wait-every", "1"}};

  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--profile") {
        profile = word;
      } else if (word == "--unrecorded") {
        unrecorded = true;
      } else if (const auto at = values.find(word.starts_with("--") ? word.substr(2) : "");
                 at != values.end() && i + 1 < argc) {
        at->second = argv[++i];
      } else if (text.empty() && !word.starts_with("--")) {
        text = word;
      } else {
        refuse("gpt_steps: {} is no option, or has no value", {word});
      }
    }
    if (text.empty()) refuse("gpt_steps: which text? {}", {"gpt_steps TEXT"});
  }
  std::int64_t count(const std::string& name) const { return std::stoll(values.at(name)); }
};

gpt::RunOptions options_of(const Arguments& a) {
  gpt::RunOptions o;
  const auto* preset =
      std::find_if(std::begin(gpt::kPresets), std::end(gpt::kPresets),
                   [&](const auto& p) { return p.first == a.values.at("preset"); });
  const auto dtype = parse_dtype(a.values.at("dtype"));
  if (preset == std::end(gpt::kPresets) || !dtype)
    refuse("gpt_steps: no preset {}, or no dtype {}",
           {a.values.at("preset"), a.values.at("dtype")});
  o.size = preset->second;
  o.dtype = *dtype;
  o.batch = a.count("batch");
  o.length = a.count("length");
  o.steps = a.count("steps");
  o.record = !a.unrecorded;
  return o;
}

template <class A>
void run(const Arguments& a, const Stream& device) {
  const gpt::RunOptions options = options_of(a);
  gpt::Run<A> run(options, gpt::read_file(a.text), device);
  if (const std::string& start = a.values.at("start"); !start.empty()) {
    auto state = nn::state(run.model());
    std::vector<std::int64_t> places;
    for (std::int64_t s = 0; s < options.steps; ++s)
      for (const std::int64_t at : run.places(s)) places.push_back(at);
    state["places_in_text"] = nn::entry_of(std::span<const std::int64_t>(places));
    value_or_throw(nn::save_state(start, state));
  }
  const std::int64_t every = std::max<std::int64_t>(1, a.count("wait-every"));
  const double before = process_mib("VmRSS");
  std::vector<double> milliseconds, cpu, losses;
  while (run.step_count() < options.steps) {
    std::optional<Profile> profile;
    if (!a.profile.empty() && run.step_count() + 1 == options.steps) profile.emplace();
    const auto begin = Clock::now();
    const std::clock_t cpu_begin = std::clock();
    const std::int64_t first = run.step_count(), end = std::min(options.steps, first + every);
    while (run.step_count() < end) (void)run.step();
    losses.push_back(run.loss());  // waits for the device
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    const auto count = static_cast<double>(end - first);
    milliseconds.push_back(took.count() / count);
    cpu.push_back(1e3 * static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC / count);
    if (profile) return fmt::print("{}", profile->table());
  }
  fmt::print(
      "{{\"tokens\": {}, \"milliseconds\": [{:.3f}], \"cpu_milliseconds\": [{:.3f}], "
      "\"losses\": [{:.9g}], \"growth_mib\": {:.1f}, "
      "\"allocator_peak_mib\": {:.1f}, \"sha256\": \"{}\"}}\n",
      options.batch * options.length, fmt::join(milliseconds, ", "), fmt::join(cpu, ", "),
      fmt::join(losses, ", "), process_mib("VmHWM") - before,
      static_cast<double>(allocator_stats(device.device()).peak) / 0x1p20, run.hash());
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a(argc, argv);
  const auto with_math = [&](const Stream& device) {
    const auto math = parse_product_math(a.values.at("math"));
    return math ? device.with_math(*math) : device;
  };
  const Stream device = a.values.at("device") == "cuda"
                            ? value_or_throw(Stream::cuda(0))
                            : Stream::cpu(static_cast<int>(a.count("threads")));
  with_backend_of(device,
                  [&]<class B>(std::type_identity<B>) { run<Autodiff<B>>(a, with_math(device)); });
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
