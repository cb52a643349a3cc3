#include "tools/planck/report/provenance.h"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "planck/core/cpu/target.h"
#include "planck/core/cuda/runtime.h"
#include "planck/io/printable.h"

namespace planck::cli {

namespace {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%~";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string typed_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  std::string text;
  for (std::size_t at = 0; at < all.size();) {
    std::string word = all.substr(at, all.find('\0', at) - at);
    at += word.size() + 1;
    if (text.empty()) word = word.substr(word.rfind('/') + 1);
    text += (text.empty() ? "" : " ") + shell_word(word);
  }
  return printable(text);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto at = line.find(": "); at != line.npos) return printable(line.substr(at + 2));
  return "unknown";
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  char text[32] = {};
  if (gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return "unknown";
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Provenance::facts() const {
  const std::string where = device == "cpu" ? fmt::format("cpu, threads: {}", threads)
                                            : fmt::format("{}, {}", device, device_name);
  return {{"Command", command},
          {"Version", "planck " + version},
          {"Date", date},
          {"CPU", fmt::format("{}, cores: {}, {}", cpu, cores, instruction_set)},
          {"Device", workers == 1 ? where : fmt::format("{}, workers: {}", where, workers)}};
}

nlohmann::ordered_json Provenance::json() const {
  return {{"version", version}, {"command", command},
          {"date", date},       {"cpu", cpu},
          {"cores", cores},     {"instruction_set", instruction_set},
          {"device", device},   {"device_name", device_name},
          {"threads", threads}, {"workers", workers}};
}

Provenance provenance(const Stream& stream, int workers) {
  Provenance p;
  p.version = PLANCK_VERSION;
  p.command = typed_command();
  p.date = now();
  p.cpu = p.device_name = cpu_name();
  p.cores = Stream::cpu().threads();
  p.instruction_set = cpu_target_name();
  p.device = to_string(stream.device());
  if (stream.device().kind == DeviceKind::cuda)
    p.device_name = cuda::device_name(stream.device().ordinal).value_or("unknown");
  p.threads = stream.threads();
  p.workers = workers;
  return p;
}

}  // namespace planck::cli
