// Limits and workspaces of the CUDA kernels, also known to builds without CUDA.
#include <algorithm>

#include "planck/ops/attention/cuda/kernels.h"

namespace planck {

std::size_t attention_cuda_workspace(const AttentionProblem& p) {
  if (!p.backward()) return 0;
  return bytes_for(compute_dtype(p.element_dtype), p.batch() * p.heads() * p.queries());
}

namespace {

std::int64_t widest(const AttentionProblem& p) { return std::max(p.width(), p.out_width()); }

// Of kernels that own tiles of 64 rows.
std::string too_many_rows(const AttentionProblem& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (const std::int64_t extent :
       {p.queries(), p.keys(), p.batch() * p.heads() * (p.queries() / 64 + 1),
        p.batch() * p.groups() * (p.keys() / 64 + 1)})
    if (extent > kMost)
      return "counts rows and blocks up to " + std::to_string(kMost) + ", there are " +
             std::to_string(extent);
  return "";
}

// What both kernels of tensor cores cannot do.
std::string tensor_cores_refusal(const AttentionProblem& p) {
  if (p.element_dtype != Dtype::bf16 && p.element_dtype != Dtype::f16)
    return "multiplies bf16 and f16, q is " + std::string(name(p.element_dtype));
  for (const std::int64_t width : {p.width(), p.out_width()})
    if (width % 8 != 0)
      return "reads 16 bytes at a time, which heads of width " + std::to_string(width) + " are not";
  return too_many_rows(p);
}

}  // namespace

std::string attention_warpgroups_refusal(const AttentionProblem& p) {
  const ScaledDotProductOptions& o = p.options;
  const bool options = p.mask || o.soft_cap != 0 || o.alibi || o.dropout > 0;
  if (widest(p) > 128 && (p.backward() || options))
    return std::string(p.backward() ? "backward has heads" : "masks and options have heads") +
           " of width up to 128, these have " + std::to_string(widest(p));
  return tensor_cores_refusal(p);
}

std::string attention_mma_sync_refusal(const AttentionProblem& p) {
  if (widest(p) > 128)
    return "has heads of width up to 128, these have " + std::to_string(widest(p));
  return tensor_cores_refusal(p);
}

namespace {

std::string tiles_refusal(const AttentionProblem& p) {
  if (p.element_dtype != Dtype::f32)
    return "multiplies f32, q is " + std::string(name(p.element_dtype));
  if (widest(p) > 128)
    return "has heads of width up to 128, these have " + std::to_string(widest(p));
  return too_many_rows(p);
}

}  // namespace

AttentionSlopeTiles::AttentionSlopeTiles(const AttentionProblem& p)
    : keys((p.keys() + 63) / 64),
      triangle(p.options.causal && p.options.window == 0 && p.queries() == p.keys()) {
  of_head = triangle ? keys * (keys + 1) / 2 : keys * ((p.queries() + 63) / 64);
}

namespace {

// Of more than can be kept, that many.
std::int64_t slope_bytes(const AttentionProblem& p) {
  constexpr std::int64_t kTileBytes = 64 * 64 * 4;
  if (!p.backward()) return 0;
  const std::int64_t heads = p.batch() * p.heads(), of_head = AttentionSlopeTiles(p).of_head;
  if (heads > 0 && of_head > kMostSlopes / kTileBytes / heads) return kMostSlopes + 1;
  return heads * of_head * kTileBytes;
}

}  // namespace

std::string attention_tiles_twice_refusal(const AttentionProblem& p) {
  if (!p.backward()) return "computes gradients, cuda:tiles the result";
  return tiles_refusal(p);
}

std::string attention_tiles_refusal(const AttentionProblem& p) {
  std::int64_t most = 0;
  if (p.options.query_offsets.empty())
    most = slope_bytes(p);
  else
    for (std::int64_t b = 0; b < p.sequences(); ++b)
      most = std::max(most, slope_bytes(p.sequence(b)));
  if (most > kMostSlopes)
    return "keeps slopes of up to " + std::to_string(kMostSlopes) + " bytes, these are more";
  return tiles_refusal(p);
}

AttentionTilesLayout::AttentionTilesLayout(const AttentionProblem& p, bool keeps_slopes) {
  const std::int64_t heads = p.batch() * p.heads();
  rows_of_head = (p.queries() + 63) / 64 * 64;
  std::size_t end = 0;
  const auto part = [&](std::int64_t wanted) {
    const std::size_t at = end;
    end += (static_cast<std::size_t>(wanted) + 255) / 256 * 256;
    return at;
  };
  delta = part(p.backward() ? 4 * heads * rows_of_head : 0);
  lse = part(p.backward() ? 4 * heads * rows_of_head : 0);
  const auto bits = [](std::int64_t rows) { return 2 * ((rows + 15) / 16); };  // of one head
  again = part(heads * bits(p.queries()));
  again_keys = part(p.backward() ? p.batch() * p.groups() * bits(p.keys()) : 0);
  slopes = part(keeps_slopes ? slope_bytes(p) : 0);
  bytes = end;
}

std::size_t attention_tiles_workspace(const AttentionProblem& p) {
  return AttentionTilesLayout(p).bytes;
}

std::size_t attention_slopes_workspace(const AttentionProblem& p) {
  return AttentionTilesLayout(p, true).bytes;
}

}  // namespace planck
