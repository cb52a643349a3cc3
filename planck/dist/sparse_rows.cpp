#include "planck/dist/sparse_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "planck/core/refuse.h"
#include "planck/dist/addition.h"

namespace planck::dist {

namespace {

// Some rows of a table, ascending.
struct Rows {
  std::vector<std::int64_t> index;
  std::vector<float> values;  // [index.size(), width]
};

Rows rows_of(const float* table, TableShape shape) {
  Rows found;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float* row = table + r * shape.width;
    std::uint32_t any = 0;
    for (std::int64_t i = 0; i < shape.width; ++i) any |= std::bit_cast<std::uint32_t>(row[i]);
    if (any == 0) continue;
    found.index.push_back(r);
    found.values.insert(found.values.end(), row, row + shape.width);
  }
  return found;
}

Rows add(const Rows& left, const Rows& right, std::int64_t width) {
  const std::vector<float> zeros(static_cast<std::size_t>(width));
  const Stream host = Stream::cpu(1);
  Rows sum;
  for (std::size_t a = 0, b = 0; a < left.index.size() || b < right.index.size();) {
    const std::int64_t end = std::numeric_limits<std::int64_t>::max();
    const std::int64_t l = a < left.index.size() ? left.index[a] : end,
                       r = b < right.index.size() ? right.index[b] : end;
    const float* x =
        l <= r ? left.values.data() + static_cast<std::int64_t>(a++) * width : zeros.data();
    const float* y =
        r <= l ? right.values.data() + static_cast<std::int64_t>(b++) * width : zeros.data();
    sum.index.push_back(std::min(l, r));
    sum.values.resize(sum.values.size() + static_cast<std::size_t>(width));
    add_on_host(host, Dtype::f32, x, y, sum.values.data() + sum.values.size() - width, width);
  }
  return sum;
}

void append(std::vector<std::byte>& message, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  message.insert(message.end(), first, first + bytes);
}

}  // namespace

void all_reduce_rows(Communicator& workers, const Grains& grains,
                     std::span<const float* const> roots, float* sum, TableShape shape) {
  if (roots.size() != grains.roots(workers.rank()).size())
    refuse("all_reduce_rows: worker {} brings {} roots, its share has {}",
           {workers.rank(), static_cast<std::int64_t>(roots.size()),
            static_cast<std::int64_t>(grains.roots(workers.rank()).size())});
  // For each root: how many rows, which, their values.
  std::vector<std::byte> message;
  for (const float* root : roots) {
    const Rows rows = rows_of(root, shape);
    const auto count = static_cast<std::int64_t>(rows.index.size());
    append(message, &count, sizeof count);
    append(message, rows.index.data(), rows.index.size() * sizeof(std::int64_t));
    append(message, rows.values.data(), rows.values.size() * sizeof(float));
  }
  const Joining joining = joining_of(grains);
  std::vector<Rows> stack;
  std::size_t value = 0;
  for (const auto& bytes : gather_all(workers, message)) {
    for (std::size_t at = 0; at < bytes.size();) {
      std::int64_t count = 0;
      std::memcpy(&count, bytes.data() + at, sizeof count);
      at += sizeof count;
      Rows rows;
      rows.index.resize(static_cast<std::size_t>(count));
      rows.values.resize(static_cast<std::size_t>(count * shape.width));
      if (count > 0) {
        std::memcpy(rows.index.data(), bytes.data() + at, rows.index.size() * sizeof(std::int64_t));
        at += rows.index.size() * sizeof(std::int64_t);
        std::memcpy(rows.values.data(), bytes.data() + at, rows.values.size() * sizeof(float));
        at += rows.values.size() * sizeof(float);
      }
      stack.push_back(std::move(rows));
      for (int m = 0; m < joining.merges[value]; ++m) {
        Rows both = add(stack[stack.size() - 2], stack.back(), shape.width);
        stack.pop_back();
        stack.back() = std::move(both);
      }
      ++value;
    }
  }
  std::fill_n(sum, shape.rows * shape.width, 0.0f);
  const Rows& total = stack.front();
  for (std::size_t i = 0; i < total.index.size(); ++i)
    std::copy_n(total.values.data() + static_cast<std::int64_t>(i) * shape.width, shape.width,
                sum + total.index[i] * shape.width);
}

}  // namespace planck::dist
