// Where the time goes: each op of Cpu and Cuda with its time and the bytes it read and wrote.
//
//   Profile profile;                  // this thread, until the end of the scope
//   auto grads = loss(model(x)).backward();
//   std::cout << profile.table();
//   profile.save_trace("step.json");  // for chrome://tracing or ui.perfetto.dev
//
// A time is that of the kernel alone. On CUDA the stream is waited for before and after each op, so
// that times are the ops' own; the whole then takes longer than without a profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planck/backend/observe.h"

namespace planck {

class Profile final : public Observer {
 public:
  // One kernel that was run.
  struct Event {
    std::string_view op, gradient_of;  // gradient_of: "" in a forward pass
    double begin_us, microseconds;     // since the profile began
    std::size_t bytes_read, bytes_written;
    std::string_view dtype;
    Shape shape;  // of the first result
  };
  // All runs of one op, forward or in the gradient of one other.
  struct Row {
    std::string_view op, gradient_of;
    std::size_t calls = 0, bytes_read = 0, bytes_written = 0;
    double microseconds = 0;
  };

  Profile();
  const std::vector<Event>& events() const { return events_; }
  // The slowest first.
  std::vector<Row> rows() const;
  std::string table() const;
  // Chrome's trace event format.
  std::string trace() const;
  void save_trace(const std::string& path) const;

 protected:
  void begin(const RunningOp& op) noexcept override;
  void end(const RunningOp& op) override;

 private:
  std::int64_t start_, op_began_ = 0;  // nanoseconds of a steady clock
  std::vector<Event> events_;
};

}  // namespace planck
