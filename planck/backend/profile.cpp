#include "planck/backend/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "planck/core/exception.h"

namespace planck {

namespace {

std::int64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}
double microseconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }
std::size_t bytes_in(std::span<const View> views) {
  std::size_t bytes = 0;
  for (const View& v : views)
    if (v.present) bytes += bytes_for(v.dtype, numel(v.shape));
  return bytes;
}
std::string readable(std::size_t bytes) {
  const double b = static_cast<double>(bytes);
  if (b < 1e4) return fmt::format("{} B", bytes);
  if (b < 1e7) return fmt::format("{:.1f} kB", b * 1e-3);
  if (b < 1e10) return fmt::format("{:.1f} MB", b * 1e-6);
  return fmt::format("{:.1f} GB", b * 1e-9);
}
// Text as JSON has it, in quotation marks.
std::string as_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string where(std::string_view gradient_of) {
  return gradient_of.empty() ? "forward" : fmt::format("gradient of {}", gradient_of);
}

}  // namespace

Profile::Profile() : start_(now_ns()) {}

void Profile::begin(const RunningOp& op) noexcept {
  (void)op.stream.synchronize();  // what it answers, it answers at the end as well
  op_began_ = now_ns();
}

void Profile::end(const RunningOp& op) {
  value_or_throw(op.stream.synchronize());
  const auto ended = now_ns();
  Event e{.op = op.name,
          .gradient_of = op.gradient_of,
          .begin_us = microseconds(op_began_ - start_),
          .microseconds = microseconds(ended - op_began_),
          .bytes_read = bytes_in(op.inputs),
          .bytes_written = bytes_in(op.outputs),
          .dtype = {},
          .shape = {}};
  if (!op.outputs.empty()) {
    e.dtype = name(op.outputs[0].dtype);
    e.shape = op.outputs[0].shape;
  }
  events_.push_back(e);
}

std::vector<Profile::Row> Profile::rows() const {
  std::map<std::pair<std::string_view, std::string_view>, Row> by_name;
  for (const Event& e : events_) {
    Row& row = by_name[{e.op, e.gradient_of}];
    row.op = e.op;
    row.gradient_of = e.gradient_of;
    ++row.calls;
    row.bytes_read += e.bytes_read;
    row.bytes_written += e.bytes_written;
    row.microseconds += e.microseconds;
  }
  std::vector<Row> rows;
  for (const auto& [key, row] : by_name) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.microseconds > b.microseconds; });
  return rows;
}

std::string Profile::table() const {
  double total = 0;
  for (const Event& e : events_) total += e.microseconds;
  std::string text = fmt::format("{:<24} {:<28} {:>7} {:>12} {:>6} {:>10} {:>10} {:>8}\n", "op",
                                 "where", "calls", "µs", "share", "read", "written", "GB/s");
  for (const Row& r : rows()) {
    const auto moved = static_cast<double>(r.bytes_read + r.bytes_written);
    text += fmt::format("{:<24} {:<28} {:>7} {:>12.1f} {:>5.1f}% {:>10} {:>10} {:>8.1f}\n", r.op,
                        where(r.gradient_of), r.calls, r.microseconds,
                        total > 0 ? 100 * r.microseconds / total : 0, readable(r.bytes_read),
                        readable(r.bytes_written),
                        r.microseconds > 0 ? moved / r.microseconds * 1e-3 : 0);
  }
  return text + fmt::format("{} ops, {:.1f} µs\n", events_.size(), total);
}

std::string Profile::trace() const {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& e = events_[i];
    text += fmt::format(
        "{}\n{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, "
        "\"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"where\": {}, \"bytes_read\": {}, "
        "\"bytes_written\": {}, \"dtype\": \"{}\", \"shape\": \"{}\"}}}}",
        i == 0 ? "" : ",", as_json(e.op), e.gradient_of.empty() ? "forward" : "backward",
        e.begin_us, e.microseconds, as_json(where(e.gradient_of)), e.bytes_read, e.bytes_written,
        e.dtype, to_string(e.shape));
  }
  return text + "\n]}\n";
}

void Profile::save_trace(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << trace();
  if (!file.flush()) raise(ErrorCode::io, fmt::format("profile: cannot write {}", path));
}

}  // namespace planck
