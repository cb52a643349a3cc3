#include "tools/planck/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planck::cli {

namespace {

// Columns a text takes: its code points. Wide glyphs count as one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f)
      out += fmt::format("\\x{:02x}", u);
    else
      out += c;
  }
  return out;
}

std::string Table::text() const {
  std::vector<std::vector<std::string>> rows(1);
  for (const Column& c : columns_) rows[0].push_back(c.title);
  rows.emplace_back();
  for (const auto& row : rows_) {
    auto& cells = rows.emplace_back();
    for (const std::string& cell : row) cells.push_back(printable(cell));
  }
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  const std::size_t total = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));

  std::string out;
  for (const auto& row : rows) {
    std::string line = row.empty() ? std::string(total, '-') : "";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::right ? gap + row[c] : row[c] + gap;
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
