#include "planck/data/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "planck/data/random_stream.h"

namespace planck {

std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const PhiloxStream stream = random_stream(seed, epoch, RandomUse::shuffle);
  std::uint64_t drawn = 0;
  Philox4 words{};
  const auto draw = [&] {
    if (drawn % 2 == 0) words = stream.words(drawn / 2);
    const std::uint32_t* pair = words.v + 2 * (drawn++ % 2);
    return pair[0] | std::uint64_t{pair[1]} << 32;
  };
  for (std::uint64_t i = order.size(); i-- > 1;) {
    const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(i);
    std::uint64_t j;
    do j = draw() & mask;
    while (j > i);
    std::swap(order[i], order[j]);
  }
  return order;
}

Result<Batches> Batches::create(std::vector<std::int64_t> order, std::int64_t batch_size,
                                LastBatch last) {
  const auto n = static_cast<std::int64_t>(order.size());
  if (batch_size < 1)
    return fail(ErrorCode::invalid_problem,
                fmt::format("batches: batch_size is {}, must be 1 or more", batch_size));
  if (last == LastBatch::drop && n > 0 && n < batch_size)
    return fail(ErrorCode::invalid_problem,
                fmt::format("batches: batch_size is {}, {} examples do not fill a single one",
                            batch_size, n));
  Batches batches;
  batches.order_ = std::move(order);
  batches.batch_size_ = batch_size;
  batches.count_ = n / batch_size + (last == LastBatch::keep && n % batch_size != 0 ? 1 : 0);
  return batches;
}

std::span<const std::int64_t> Batches::operator[](std::int64_t batch) const {
  const auto first = static_cast<std::size_t>(batch * batch_size_);
  return std::span(order_).subspan(
      first, std::min(static_cast<std::size_t>(batch_size_), order_.size() - first));
}

}  // namespace planck
