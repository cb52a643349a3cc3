// A text table with aligned columns, and how sizes and decibels are written in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/planck/print/console.h"

namespace planck::cli {

class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
    int spare = 0;  // left out where there is no room, those of the highest number first; 0: never
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Cells are made printable: names come from files.
  void add(const std::vector<std::string>& cells);
  void add_rule() { rows_.emplace_back(); }

  // As wide as the terminal at most: columns that can be spared are left out, and named, so that
  // words stay readable; then … stands in what does not fit. Elsewhere cells are whole up to 200
  // columns, and the first 80 of them are what a column is padded to.
  std::string text() const;

 private:
  std::vector<std::size_t> widths_of_all() const;
  // The columns that are shown on a screen, with their widths.
  struct Shown {
    std::vector<std::size_t> columns, widths;  // by place in columns_
    std::string left_out;                      // a line that names the others
  };
  Shown fitted(std::vector<std::size_t> widths, std::size_t screen) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

std::string size_text(std::uint64_t bytes);  // "512 B", "1.50 MiB"
std::string decibel_text(double db);         // "31.42", "exact"
std::string error_text(double value);        // "1.234e-03"

}  // namespace planck::cli
