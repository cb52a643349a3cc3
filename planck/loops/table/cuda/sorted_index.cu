#include "planck/loops/table/cuda/small_index.cuh"
#include "planck/loops/table/cuda/sorted_rows.cuh"

namespace planck::table_device {

namespace {

constexpr const char* kName = "embedding index";

template <int kItems, bool kWide>
Result<void> launch_pass(const Stream& stream, const IndexCall& c, int pass) {
  constexpr std::size_t kBytes = sizeof(PassShared<kItems>);
  if (auto ok = cuda_result(cudaFuncSetAttribute(sort_pass<kItems, kWide>,
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(kBytes)),
                            kName);
      !ok)
    return ok;
  return launch_next_with(stream, kName, kBytes, sort_pass<kItems, kWide>, c.index.tiles,
                          kSortThreads, c.index, c.keys, pass);
}

Result<void> pass_of(const Stream& stream, const IndexCall& c, int pass) {
  if (c.layout.wide)
    return c.layout.items_a_thread < 16 ? launch_pass<1, true>(stream, c, pass)
                                        : launch_pass<16, true>(stream, c, pass);
  switch (c.layout.items_a_thread) {
    case 1:
      return launch_pass<1, false>(stream, c, pass);
    case 2:
      return launch_pass<2, false>(stream, c, pass);
    case 4:
      return launch_pass<4, false>(stream, c, pass);
    case 8:
      return launch_pass<8, false>(stream, c, pass);
    default:
      return launch_pass<16, false>(stream, c, pass);
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
      return launcher(stream, kName, l.wide ? small_index<true> : small_index<false>, 1 + clearing,
                      kSortThreads, c.index, c.keys, c.bad, c.ordered, c.clear, zeroed);
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
  ok = launch_next(stream, kName, l.wide ? count_digits<true> : count_digits<false>,
                   std::min(ceil_div(l.count, 2 * kSortThreads), sms), kSortThreads, c.index,
                   c.keys, c.bad);
  for (int pass = 0; ok && pass < l.passes; ++pass) ok = pass_of(stream, c, pass);
  if (ok && c.ordered.rows != nullptr)
    ok = launch_next(stream, kName, l.wide ? count_heads<true> : count_heads<false>, l.item_tiles,
                     kSortThreads, c.index);
  if (!ok) return ok;
  return launch_next(stream, kName, l.wide ? make_items<true> : make_items<false>, l.item_tiles,
                     kSortThreads, c.index, c.ordered);
}

}  // namespace planck::table_device
