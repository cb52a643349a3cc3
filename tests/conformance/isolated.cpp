#include "tests/conformance/isolated.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace planck::conformance {

namespace {

// What parent and child share.
struct Progress {
  std::size_t at;    // the case being run
  std::size_t used;  // of text
  Counted counted;
  char text[1 << 16];

  void add(const std::string& line) {
    if (used + line.size() + 1 > sizeof(text)) return;
    std::memcpy(text + used, line.data(), line.size());
    used += line.size();
    text[used++] = '\n';
  }
};

[[noreturn]] void run_from(const std::vector<IsolatedCase>& cases, std::size_t begin,
                           unsigned seconds, Progress& progress) {
  for (std::size_t i = begin; i < cases.size(); ++i) {
    progress.at = i;
    if (i % 64 == 0 || i == begin) alarm(seconds);
    std::string fault;
    try {
      fault = cases[i].run(progress.counted);
    } catch (const std::exception& e) {
      fault = fmt::format("threw: {}", e.what());
    }
    if (!fault.empty()) progress.add(fmt::format("{}: {}", cases[i].text(), fault));
  }
  progress.at = cases.size();
  _exit(0);
}

std::string described(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "hangs";
  return fmt::format("signal {}: {}", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

IsolatedReport run_isolated(const std::vector<IsolatedCase>& cases, unsigned seconds) {
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {{"mmap failed"}};
  auto& progress = *new (memory) Progress{};
  IsolatedReport report;
  auto& failures = report.failures;
  for (std::size_t begin = 0; begin < cases.size();) {
    const pid_t child = fork();
    if (child < 0) return {{"fork failed"}};
    if (child == 0) run_from(cases, begin, seconds, progress);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (progress.at >= cases.size()) break;
    failures.push_back(fmt::format("{}: {}", cases[progress.at].text(), described(status)));
    begin = progress.at + 1;
    if (failures.size() > 200) break;
  }
  for (const char* p = progress.text; p < progress.text + progress.used;) {
    const char* end = std::strchr(p, '\n');
    failures.emplace_back(p, end);
    p = end + 1;
  }
  report.counted = progress.counted;
  munmap(memory, sizeof(Progress));
  return report;
}

}  // namespace planck::conformance
