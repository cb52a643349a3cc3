#include "tools/planck/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace planck::cli {

namespace {

constexpr std::size_t kLongestCell = 200, kWidestColumn = 80, kNarrowestColumn = 6, kGap = 2;

std::size_t total_of(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

}  // namespace

void Table::add(const std::vector<std::string>& cells) {
  auto& row = rows_.emplace_back();
  for (const std::string& cell : cells) {
    // No more of a long name than what may be shown of it, escaped or not.
    const std::string_view all = cell;
    const bool longer = all.size() > 8 * kLongestCell;
    row.push_back(shortened(longer ? printable(all.substr(0, 4 * kLongestCell)) +
                                         printable(all.substr(all.size() - 4 * kLongestCell))
                                   : printable(all),
                            kLongestCell));
  }
}

std::string Table::text() const {
  using Rows = std::vector<std::vector<std::string>>;
  Rows head(2);
  for (const Column& c : columns_) head[0].push_back(c.title);
  std::vector<std::size_t> widths(columns_.size());
  for (const Rows* rows : {&std::as_const(head), &rows_})
    for (const auto& row : *rows)
      for (std::size_t c = 0; c < row.size(); ++c)
        widths[c] = std::max(widths[c], columns_of(row[c]));

  const std::size_t screen = terminal_columns(STDOUT_FILENO);
  if (screen == 0)
    for (std::size_t& w : widths) w = std::min(w, kWidestColumn);
  // The widest column of words gives way, until all fits or no column can.
  while (screen > 0 && total_of(widths) > screen) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (columns_[c].align == Align::left && widths[c] > kNarrowestColumn &&
          (widest == widths.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == widths.size()) break;
    --widths[widest];
  }

  std::string out;
  for (const Rows* rows : {&std::as_const(head), &rows_})
    for (const auto& row : *rows) {
      std::string line = row.empty() ? std::string(total_of(widths), '-') : "";
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string cell = screen > 0 ? shortened(row[c], widths[c]) : row[c];
        const std::string gap(widths[c] - std::min(widths[c], columns_of(cell)), ' ');
        if (c > 0) line += std::string(kGap, ' ');
        line += columns_[c].align == Align::right ? gap + cell : cell + gap;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  return out;
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string decibel_text(double db) {
  return std::isinf(db) && db > 0 ? "exact" : fmt::format("{:.2f}", db);
}
std::string error_text(double value) { return fmt::format("{:.3e}", value); }

}  // namespace planck::cli
