#include "tools/planck/print/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace planck::cli {

namespace {

constexpr std::size_t kLongestCell = 200, kWidestColumn = 80, kNarrowestColumn = 6, kGap = 2;

// What words are shortened to before a column that can be spared is kept: the first column, others.
constexpr std::size_t kReadableName = 32, kReadable = 16;

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

std::vector<std::size_t> Table::widths_of_all() const {
  std::vector<std::size_t> widths;
  for (const Column& c : columns_) widths.push_back(columns_of(c.title));
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], columns_of(row[c]));
  return widths;
}

Table::Shown Table::fitted(std::vector<std::size_t> widths, std::size_t screen) const {
  Shown shown;
  for (std::size_t c = 0; c < widths.size(); ++c) shown.columns.push_back(c);
  const auto readable = [&](std::size_t c) {
    return columns_[c].align == Align::right
               ? widths[c]
               : std::min(widths[c], c == 0 ? kReadableName : kReadable);
  };
  const auto fits = [&] {
    std::vector<std::size_t> least;
    for (const std::size_t c : shown.columns) least.push_back(readable(c));
    return total_of(least) <= screen;
  };
  while (!fits()) {
    const auto spared = std::max_element(
        shown.columns.begin(), shown.columns.end(),
        [&](std::size_t a, std::size_t b) { return columns_[a].spare < columns_[b].spare; });
    if (columns_[*spared].spare == 0) break;
    if (!columns_[*spared].title.empty())
      shown.left_out += (shown.left_out.empty() ? "no room for: " : ", ") + columns_[*spared].title;
    shown.columns.erase(spared);
  }
  for (const std::size_t c : shown.columns) shown.widths.push_back(widths[c]);
  // The widest column of words gives way, first as far as it stays readable.
  for (const bool unreadable : {false, true})
    while (total_of(shown.widths) > screen) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i < shown.columns.size(); ++i) {
        const std::size_t c = shown.columns[i], least = unreadable ? kNarrowestColumn : readable(c);
        if (columns_[c].align == Align::left && shown.widths[i] > least &&
            (widest == nullptr || shown.widths[i] > *widest))
          widest = &shown.widths[i];
      }
      if (widest == nullptr) break;
      --*widest;
    }
  if (!shown.left_out.empty()) shown.left_out = shortened(shown.left_out, screen) + "\n";
  return shown;
}

std::string Table::text() const {
  using Rows = std::vector<std::vector<std::string>>;
  Rows head(2);
  for (const Column& c : columns_) head[0].push_back(c.title);
  auto widths = widths_of_all();
  const std::size_t screen = terminal_columns(STDOUT_FILENO);
  if (screen == 0)
    for (std::size_t& w : widths) w = std::min(w, kWidestColumn);
  const Shown shown = fitted(widths, screen > 0 ? screen : total_of(widths));

  std::string out;
  for (const Rows* rows : {&std::as_const(head), &rows_})
    for (const auto& row : *rows) {
      std::string line = row.empty() ? std::string(total_of(shown.widths), '-') : "";
      for (std::size_t i = 0; i < shown.columns.size() && !row.empty(); ++i) {
        const std::size_t c = shown.columns[i], width = shown.widths[i];
        const std::string cell = screen > 0 ? shortened(row[c], width) : row[c];
        const std::string gap(width - std::min(width, columns_of(cell)), ' ');
        if (i > 0) line += std::string(kGap, ' ');
        line += columns_[c].align == Align::right ? gap + cell : cell + gap;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  return out + shown.left_out;
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
