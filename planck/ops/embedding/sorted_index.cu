#include "planck/ops/embedding/small_index.cuh"
#include "planck/ops/embedding/sorted_rows.cuh"

namespace planck::embedding_device {

namespace {

constexpr const char* kName = "embedding index";

template <int kItems>
Result<void> launch_pass(const Stream& stream, const IndexCall& c, int pass) {
  constexpr std::size_t kBytes = sizeof(PassShared<kItems>);
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(sort_pass<kItems>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kBytes)),
          kName);
      !ok)
    return ok;
  return launch_next_with(stream, kName, kBytes, sort_pass<kItems>, c.index.tiles, kSortThreads,
                          c.index, c.keys, pass);
}

Result<void> pass_of(const Stream& stream, const IndexCall& c, int pass) {
  switch (c.layout.items_a_thread) {
    case 1:
      return launch_pass<1>(stream, c, pass);
    case 2:
      return launch_pass<2>(stream, c, pass);
    case 4:
      return launch_pass<4>(stream, c, pass);
    case 8:
      return launch_pass<8>(stream, c, pass);
    default:
      return launch_pass<16>(stream, c, pass);
  }
}

}  // namespace

Result<int> multiprocessors(const Stream& stream) {
  int n = 0;
  if (auto ok = cuda_result(
          cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, stream.device().ordinal),
          "multiprocessors");
      !ok)
    return tl::unexpected(ok.error());
  return n;
}

Result<void> build_index(const Stream& stream, const IndexCall& c) {
  const auto processors = multiprocessors(stream);
  if (!processors) return tl::unexpected(processors.error());
  const std::int64_t sms = *processors;
  const SortedIndexLayout& l = c.layout;
  if (l.small) {  // also where there is nothing but rows to clear
    const std::int64_t clearing = std::min(ceil_div(c.clear.pieces(), kSortWarps), 4 * sms);
    const auto zeroed = static_cast<std::int64_t>(l.zeroed / 16);
    const auto start = [&](auto launcher) {
      return launcher(stream, kName, small_index, 1 + clearing, kSortThreads, c.index, c.keys,
                      c.bad, c.ordered, c.clear, zeroed);
    };
    return c.first ? start([](const auto&... x) { return launch(x...); })
                   : start([](const auto&... x) { return launch_next(x...); });
  }
  const auto vectors = static_cast<std::int64_t>(l.zeroed / 16);
  const std::int64_t clearing_blocks = std::min(ceil_div(vectors, kSortThreads), 2 * sms);
  auto* zeroed = reinterpret_cast<uint4*>(c.index.counters);
  auto ok = c.first ? launch(stream, kName, clear_index, clearing_blocks, kSortThreads, zeroed,
                             vectors, c.bad)
                    : launch_next(stream, kName, clear_index, clearing_blocks, kSortThreads, zeroed,
                                  vectors, c.bad);
  if (!ok) return ok;
  ok = launch_next(stream, kName, count_digits, std::min(ceil_div(l.count, 2 * kSortThreads), sms),
                   kSortThreads, c.index, c.keys, c.bad);
  for (int pass = 0; ok && pass < l.passes; ++pass) ok = pass_of(stream, c, pass);
  if (ok && c.ordered.rows != nullptr)
    ok = launch_next(stream, kName, count_heads, l.item_tiles, kSortThreads, c.index);
  if (!ok) return ok;
  return launch_next(stream, kName, make_items, l.item_tiles, kSortThreads, c.index, c.ordered);
}

}  // namespace planck::embedding_device
