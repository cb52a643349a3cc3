// The groups of a block on the CPU: scale and zero point of each element, and what is derived from
// them.
#pragma once

#include "planck/loops/map.cpu.h"
#include "planck/ops/quantize/problem.h"
#include "planck/ops/quantize/quantize.blocks.h"

namespace planck {

template <class C>
class GroupLoader {
 public:
  // zero_point may be null: all zero. margin: see QuantBlocks.
  GroupLoader(const QuantProblem& p, const MapOperand& scale, const MapOperand* zero_point,
              int margin, bool allow_corrected = true)
      : problem_(p),
        scale_(scale),
        zero_point_(zero_point),
        margin_(margin),
        allow_corrected_(allow_corrected) {}

  // How many of the n positions from `begin` to do at once: those of one group where groups have
  // long runs. `pairs`: never an odd number.
  int cut(std::int64_t begin, int n, bool pairs) const {
    const Walk& w = scale_.walk;
    const auto last = static_cast<std::size_t>(w.rank - 1);
    constexpr std::int64_t kWorthIt = 128;
    if (w.stride[last] != 0 || w.extent[last] < kWorthIt) return n;
    if (pairs && w.extent[last] % 2 != 0) return n;
    if (w.rank == 1) return n;
    return static_cast<int>(std::min<std::int64_t>(n, w.extent[last] - begin % w.extent[last]));
  }

  // The groups of positions [begin, begin + n). `key` ≥ 0 names a range whose groups were loaded
  // before: not again.
  const BlockGroups<C>& load(std::int64_t begin, int n, std::int64_t key = -1) {
    if (key >= 0 && key == key_) return groups_;
    key_ = key;
    bool uniform = true;
    const auto fill = [&](const Walk& w, auto&& get) {
      int done = 0;
      w.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
        if (stride == 0 && length == n) {
          get(offset, 0, 1, 0);
        } else {
          get(offset, stride, static_cast<int>(length), done);
          uniform &= length == 1 && n == 1;
        }
        done += static_cast<int>(length);
      });
    };
    const BlockOps& ops = block_ops();
    fill(scale_.walk, [&](std::int64_t offset, std::int64_t stride, int count, int at) {
      load_block(ops, scale_.dtype, scale_.base, offset, stride, count, scale_values_ + at);
    });
    const bool scale_uniform = uniform;
    uniform = true;
    if (zero_point_ != nullptr)
      fill(zero_point_->walk, [&](std::int64_t offset, std::int64_t stride, int count, int at) {
        ops.load_i32(zero_point_->base, offset, stride, count, zero_values_ + at);
      });
    else
      zero_values_[0] = 0;
    if (scale_uniform != uniform) {  // e.g. one zero point broadcast over many scales
      if (scale_uniform) std::fill_n(scale_values_ + 1, n - 1, scale_values_[0]);
      if (uniform) std::fill_n(zero_values_ + 1, n - 1, zero_values_[0]);
    }
    const bool one = scale_uniform && uniform;
    groups_ = {one ? 0 : 1,
               GridPath::divide,
               problem_.q_min,
               problem_.q_max,
               scale_values_,
               zero_values_,
               inverse_,
               lo_,
               hi_,
               x_lo_,
               x_hi_};
    groups_.path = quant_blocks<C>().prepare(
        one ? 1 : n, scale_values_, zero_values_, problem_.q_min, problem_.q_max,
        problem_.math == QuantMath::reciprocal, margin_, inverse_, lo_, hi_, x_lo_, x_hi_);
    if (groups_.path == GridPath::corrected && !allow_corrected_) groups_.path = GridPath::divide;
    return groups_;
  }

 private:
  const QuantProblem& problem_;
  const MapOperand& scale_;
  const MapOperand* zero_point_;
  int margin_;
  bool allow_corrected_;
  std::int64_t key_ = -1;
  BlockGroups<C> groups_;
  alignas(64) C scale_values_[kBlock];
  alignas(64) C inverse_[kBlock];
  alignas(64) C lo_[kBlock];
  alignas(64) C hi_[kBlock];
  alignas(64) C x_lo_[kBlock];
  alignas(64) C x_hi_[kBlock];
  alignas(64) std::int32_t zero_values_[kBlock];
};

// Loads positions [begin, begin + n) of a float operand; no copy where they lie densely in the
// compute type.
template <class C>
const C* load_positions(const MapOperand& operand, std::int64_t begin, int n, C* buffer) {
  const Walk& w = operand.walk;
  if (w.dense() && operand.dtype == dtype_of<C>)
    return static_cast<const C*>(operand.base) + w.offset + begin;
  int done = 0;
  w.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    load_block(block_ops(), operand.dtype, operand.base, offset, stride, static_cast<int>(length),
               buffer + done);
    done += static_cast<int>(length);
  });
  return buffer;
}

template <class C>
void store_positions(const MapOperand& operand, std::int64_t begin, int n, const C* values,
                     bool stream) {
  int done = 0;
  operand.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    store_block(block_ops(), operand.dtype, operand.base, offset, stride, static_cast<int>(length),
                values + done, stream);
    done += static_cast<int>(length);
  });
}

// Nest and operands of a problem: `elements` have the tensor's shape, `groups` one entry a group;
// in that order.
struct QuantNest {
  Nest nest;
  std::array<View, kMaxNestOperands> views;
};
QuantNest quant_nest(const QuantProblem& p, std::initializer_list<const View*> elements,
                     std::initializer_list<const View*> groups);

// A view of group_shape() in row-major order of the groups.
Walk group_walk(const QuantProblem& p, const View& v);

// Elementwise kinds; also the last step of dynamic_quantize.
Result<void> quantize_elementwise_cpu(const Stream&, const QuantProblem&, const Operands&);
// Kinds that reduce over groups.
Result<void> fake_quantize_learn_cpu(const Stream&, Workspace, const QuantProblem&,
                                     const Operands&);
Result<void> dynamic_quantize_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);
std::size_t dynamic_quantize_cpu_workspace(const QuantProblem&);

}  // namespace planck
