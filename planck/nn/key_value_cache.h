// Keys and values of the tokens that an attention has read: those that follow are all it reads.
//
//   nn::KeyValueCache<B> cache;
//   auto y = attention(prompt, cache);  // then one token at a time:
//   y = attention(next, cache);
//
// A query has the bits that it has in the whole sequence: attention walks over the keys from the
// first on, in blocks, whatever queries there are (planck/ops/attention). Whole blocks that no
// later query sees, which a window leaves behind, can be let go of without changing that.
#pragma once

#include <optional>

#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck::nn {

template <class B>
class KeyValueCache {
 public:
  // How many tokens were read, those that were let go of among them.
  std::int64_t tokens() const { return forgotten_ + held(); }
  // How many are held.
  std::int64_t held() const { return keys_ ? keys_->extent(2) : 0; }
  bool empty() const { return tokens() == 0; }

  // Keys [N, heads, L, d] and values [N, heads, L, e] of the tokens that follow.
  void append(const Tensor<B>& keys, const Tensor<B>& values) {
    check("keys", keys, keys_);
    check("values", values, values_);
    if (keys.extent(2) != values.extent(2))
      refuse("cache: keys of {} tokens and values of {}", {keys.extent(2), values.extent(2)});
    auto longer = keys_ ? cat(std::vector{*keys_, keys}, 2) : keys;
    values_ = values_ ? cat(std::vector{*values_, values}, 2) : values;
    keys_ = std::move(longer);
  }
  // Of all tokens that are held; there is one at least.
  const Tensor<B>& keys() const { return keys_.value(); }
  const Tensor<B>& values() const { return values_.value(); }

  // Lets go of what nobody sees who looks at the last `window` tokens, itself among them.
  void keep(std::int64_t window) {
    if (window < 1) refuse("cache: a window of {} tokens, 1 is the least", {window});
    constexpr std::int64_t kBlock = kAttentionBlock;
    const std::int64_t gone = (held() - window + 1) / kBlock * kBlock;
    if (gone <= 0) return;
    keys_ = slice(*keys_, 2, gone);
    values_ = slice(*values_, 2, gone);
    forgotten_ += gone;
  }
  void clear() { *this = {}; }

 private:
  static void check(std::string_view what, const Tensor<B>& next,
                    const std::optional<Tensor<B>>& held) {
    if (next.rank() != 4)
      refuse("cache: {} of shape {}, must have four axes", {what, next.shape()});
    if (!held) return;
    for (const int axis : {0, 1, 3})
      if (next.extent(axis) != held->extent(axis))
        refuse("cache: {} of shape {} after {}: must be the same but for axis 2",
               {what, next.shape(), held->shape()});
    if (next.dtype() != held->dtype())
      refuse("cache: {} are {}, those before {}", {what, next.dtype(), held->dtype()});
  }

  std::optional<Tensor<B>> keys_, values_;
  std::int64_t forgotten_ = 0;
};

}  // namespace planck::nn
