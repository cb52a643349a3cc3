// The attention family as one plain value: which op, dtype, shapes of q, k and v, whether there is
// a mask, and the options. attention.h says what is computed.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "planck/core/product_math.h"
#include "planck/plan/plan.h"

namespace planck {

struct ScaledDotProductOptions {
  std::optional<double> scale = {};      // none: 1 / sqrt(D)
  bool causal = false;                   // query i sees keys up to i + S - L
  std::int64_t window = 0;               // and of these the last `window` alone; 0: all
  std::optional<ProductMath> math = {};  // none: as the device of the tensors says
  double soft_cap = 0;  // scores become soft_cap * tanh(score / soft_cap); 0: as they are
  bool alibi = false;   // adds -slope * |i + S - L - j|; the slope is a power of 2 of the head
  double dropout = 0;   // the probability that one of softmax is 0; others are / (1 - dropout)
  std::uint64_t seed = 0, offset = 0;  // of the numbers that say which (Rng)
  // Packed sequences: number b has queries query_offsets[b] … query_offsets[b + 1] - 1, and these
  // see its keys alone. Empty: one sequence.
  std::vector<std::int64_t> query_offsets = {}, key_offsets = {};

  bool operator==(const ScaledDotProductOptions&) const = default;
};

enum class AttentionKind : std::uint8_t {
  attention,           // q, k, v, mask → y, lse
  attention_backward,  // q, k, v, mask, y, lse, dy → dq, dk, dv
};

inline constexpr int kAttentionOperands = 10;
inline constexpr std::int64_t kMostHeadWidth = 256;
inline constexpr std::int64_t kAttentionBlock = 128;  // keys between two looks at the largest score

struct AttentionProblem {
  AttentionKind kind = AttentionKind::attention;
  Dtype element_dtype = Dtype::f32;
  Shape q, k, v;  // [N, H, L, D], [N, G, S, D], [N, G, S, E]
  ScaledDotProductOptions options;
  std::optional<Dtype> mask = {};  // none, boolean, or the element dtype
  // Of one of packed sequences, where it begins, and how long all are: dropout counts these.
  std::int64_t first_query = 0, first_key = 0;
  std::optional<std::int64_t> all_queries = {}, all_keys = {};

  bool operator==(const AttentionProblem&) const = default;

  bool backward() const { return kind == AttentionKind::attention_backward; }
  std::int64_t batch() const { return q[0]; }
  std::int64_t heads() const { return q[1]; }   // H
  std::int64_t groups() const { return k[1]; }  // G
  std::int64_t in_group() const { return q[1] / k[1]; }
  std::int64_t queries() const { return q[2]; }    // L
  std::int64_t keys() const { return k[2]; }       // S
  std::int64_t width() const { return q[3]; }      // D
  std::int64_t out_width() const { return v[3]; }  // E
  ProductMath product_math() const { return math(); }
  ProductMath math() const { return options.math.value_or(default_product_math(element_dtype)); }
  double scale() const;
  // Keys that query i may see, by causal and window: [first, second).
  std::pair<std::int64_t, std::int64_t> seen(std::int64_t i) const;
  bool limited() const { return options.causal; }
  // Where the probability of query i and key j is in [N, H, L, S].
  std::int64_t place_of(std::int64_t n, std::int64_t head, std::int64_t i, std::int64_t j) const {
    const std::int64_t row = (n * heads() + head) * all_queries.value_or(queries()) + first_query;
    return (row + i) * all_keys.value_or(keys()) + first_key + j;
  }
  // Packed sequences, and each of them.
  std::int64_t sequences() const;
  AttentionProblem sequence(std::int64_t b) const;

  // What Selection<AttentionProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  Result<void> fits() const;  // the same, of heads of any width
  std::array<OperandSpec, kAttentionOperands> specs() const;
  std::span<const Kernel<AttentionProblem>> kernels() const;
  // On tensors y lies in memory as q does, gradients as what they are of: heads that were cut from
  // rows of tokens are put together without a copy.
  int lies_as(std::size_t operand) const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// From what is known of q, k, v and, where there is one, the mask. any_width: also of heads that no
// kernel takes.
Result<AttentionProblem> attention_problem(AttentionKind kind,
                                           const ScaledDotProductOptions& options,
                                           const InputSpec& q, const InputSpec& k,
                                           const InputSpec& v, const InputSpec* mask,
                                           bool any_width = false);

// Places of operands.
namespace attention_operand {
enum { q, k, v, mask, y, lse };                   // attention
enum { saved_y = 4, saved_lse, dy, dq, dk, dv };  // attention_backward
}  // namespace attention_operand

std::vector<OpEntry> attention_ops();

}  // namespace planck
