#include "planck/verify/bench/buffers.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "planck/core/cuda/runtime.h"

namespace planck::verify {

namespace {

// What the case makes of the input as a whole; else random bytes of the fill, a block of them over
// and over: large tensors would take longer to make than to time.
HostTensor some_values(const Case& c, const CaseInput& in, std::uint64_t seed) {
  constexpr std::int64_t kBlock = 1 << 20;
  if (c.prepare.apply != nullptr && c.prepare.rewrites == in.name) {
    NamedTensors made;
    made.emplace(in.name, HostTensor(in.dtype, in.shape));
    c.prepare.apply(c, made);
    return std::move(made.begin()->second);
  }
  HostTensor block(in.dtype, {std::min(kBlock, std::max<std::int64_t>(1, numel(in.shape)))});
  fill(block, in.fill, seed, 0, in.range);
  return block;
}

Result<void> upload_tiled(const Stream& stream, const HostTensor& block, Buffer& to) {
  if (block.bytes.empty()) return {};
  for (std::size_t at = 0; at < to.bytes(); at += block.bytes.size()) {
    const std::size_t count = std::min(block.bytes.size(), to.bytes() - at);
    auto* destination = static_cast<std::byte*>(to.data()) + at;
    if (stream.device().kind == DeviceKind::cpu) {
      std::memcpy(destination, block.bytes.data(), count);
    } else if (auto ok = cuda::copy_to_device(stream.device().ordinal, stream.native(), destination,
                                              block.bytes.data(), count);
               !ok) {
      return ok;
    }
  }
  return stream.synchronize();
}

const CaseInput* find_input(const Case& c, std::string_view operand) {
  for (const CaseInput& in : c.inputs)
    if (in.name == operand) return &in;
  return nullptr;
}

// What inputs are filled with, by operand: made once, the same for all sets.
using Blocks = std::map<std::size_t, HostTensor>;

Result<BufferSet> make_set(const BenchCase& bench, const AnyProblem& problem, const Stream& stream,
                           Blocks& blocks) {
  const Case& c = bench.test_case;
  BufferSet set;
  const std::vector<OperandSpec> specs = problem.specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const OperandInfo& info = problem.info().operands[i];
    const CaseInput* in = find_input(c, info.name);
    if (!specs[i].used || (info.role == Role::input && in == nullptr)) continue;
    const Shape& shape = in != nullptr ? in->shape : specs[i].shape;
    Layout layout = in != nullptr ? in->layout : Layout::contiguous;
    if (const auto it = c.output_layouts.find(info.name); it != c.output_layouts.end())
      layout = it->second;
    const Placement placement = place(layout, specs[i].dtype, shape, info.role)
                                    .value_or(Placement{row_major(shape), 0, numel(shape)});
    auto buffer = allocate(stream, bytes_for(specs[i].dtype, placement.span));
    if (!buffer) return tl::unexpected(buffer.error());
    if (in != nullptr) {
      auto block = blocks.find(i);
      if (block == blocks.end()) block = blocks.emplace(i, some_values(c, *in, c.seed + i)).first;
      if (auto ok = upload_tiled(stream, block->second, *buffer); !ok)
        return tl::unexpected(ok.error());
    } else if (stream.device().kind == DeviceKind::cpu) {
      std::memset(buffer->data(), 0, buffer->bytes());  // touched once, before anything is timed
    }
    const auto part = bench.moved.find(info.name);
    const std::int64_t moved = part == bench.moved.end() ? numel(shape) : part->second;
    auto* base = static_cast<std::byte*>(buffer->data());
    set.operands[i] = {base + bytes_for(specs[i].dtype, placement.offset), specs[i].dtype, shape,
                       placement.strides, true};
    (info.role == Role::input ? set.traffic.reads : set.traffic.writes)
        .push_back({buffer->data(), bytes_for(specs[i].dtype, moved)});
    set.buffers.push_back(std::move(*buffer));
  }
  return set;
}

}  // namespace

std::size_t cache_footprint(const Stream& stream) {
  constexpr std::size_t kDeviceCache = std::size_t{128} << 20;
  if (stream.device().kind == DeviceKind::cuda) return 2 * kDeviceCache;
  const long last_level = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return 2 * std::max<std::size_t>(last_level > 0 ? static_cast<std::size_t>(last_level) : 0,
                                   std::size_t{32} << 20);
}

Result<std::vector<BufferSet>> make_buffer_sets(const BenchCase& bench, const AnyProblem& problem,
                                                const Stream& stream, std::size_t footprint) {
  constexpr std::size_t kMostSets = 64;
  std::vector<BufferSet> sets;
  Blocks blocks;
  std::size_t bytes = 0;
  do {
    auto set = make_set(bench, problem, stream, blocks);
    if (!set) return tl::unexpected(set.error());
    for (const Buffer& b : set->buffers) bytes += b.bytes();
    sets.push_back(std::move(*set));
  } while (bytes < footprint && sets.size() < kMostSets);
  return sets;
}

}  // namespace planck::verify
