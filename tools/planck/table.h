// A text table with aligned columns, and how sizes and decibels are written in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace planck::cli {

class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void add_rule() { rows_.emplace_back(); }
  // Control characters in cells are escaped: names come from files.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

std::string printable(std::string_view text);  // control characters escaped
std::string size_text(std::uint64_t bytes);    // "512 B", "1.50 MiB"
std::string decibel_text(double db);           // "31.42", "exact"
std::string error_text(double value);          // "1.234e-03"

}  // namespace planck::cli
