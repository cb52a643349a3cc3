// Sums of products of tensors, by the letters of their axes: einsum("ij,jk->ik", a, b) is a matrix
// product, "bhqd,bhkd->bhqk" the scores of attention, "ii->i" the diagonal, "ij->" the sum of all,
// "i,j->ij" the outer product, and "...i,i->..." serves any axes in front. A letter that the result
// does not have is summed over. Without an arrow the result has "..." and the letters that stand
// once, in the order of the alphabet. An extent of 1 broadcasts. Tensors are combined from left to
// right, two at a time, by products of matrices.
#pragma once

#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/einsum.ops.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

namespace einsum_detail {

// A tensor and a label for each of its axes.
template <class B>
struct Labelled {
  Tensor<B> x;
  std::string labels;

  std::int64_t extent(char label) const { return x.shape()[static_cast<int>(labels.find(label))]; }
  Shape extents(std::string_view of) const {
    Shape shape;
    for (char label : of) shape.push_back(extent(label));
    return shape;
  }
  void order(const std::string& wanted) {
    if (wanted == labels) return;
    x = permute(x, einsum_axes(labels, wanted));
    labels = wanted;
  }
  // Labels that stand twice stand once: elements of both positions equal.
  void take_diagonals() {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::size_t j = labels.find(labels[i], i + 1);
      if (j == std::string::npos) continue;
      Extents axes;
      Shape shape;
      for (int d = 0; d < x.rank(); ++d)
        if (d != static_cast<int>(i) && d != static_cast<int>(j)) {
          axes.push_back(d);
          shape.push_back(x.shape()[d]);
        }
      const std::int64_t n = x.shape()[static_cast<int>(i)];
      axes.push_back(static_cast<std::int64_t>(i));
      axes.push_back(static_cast<std::int64_t>(j));
      shape.push_back(n * n);
      x = slice(reshape(permute(x, axes), shape), -1, 0, n * n, n + 1);
      const char label = labels[i];
      labels.erase(j, 1).erase(i, 1);
      labels += label;
      i = static_cast<std::size_t>(-1);  // again from the first
    }
  }
  // Sums over labels that are not needed.
  void sum_all_but(std::string_view needed) {
    unsigned mask = 0;
    std::string kept;
    for (std::size_t d = 0; d < labels.size(); ++d)
      if (needed.find(labels[d]) == std::string_view::npos)
        mask |= 1u << d;
      else
        kept += labels[d];
    if (mask == 0) return;
    const Shape shape = extents(kept);
    x = reshape(call(Sum{mask}, x), shape);
    labels = kept;
  }
  // Without axes of extent 1 that are longer in another tensor.
  void drop(std::string_view broadcast) {
    std::string kept;
    for (char label : labels)
      if (broadcast.find(label) == std::string_view::npos || extent(label) != 1) kept += label;
    if (kept == labels) return;
    const Shape shape = extents(kept);
    x = reshape(x, shape);
    labels = kept;
  }
};

template <class B>
Labelled<B> multiplied(Labelled<B> a, Labelled<B> b, std::string_view needed) {
  const EinsumPair p(a.labels, b.labels, needed);
  const Shape batch = a.extents(p.batch), left = a.extents(p.left), right = b.extents(p.right);
  const std::int64_t groups = numel(batch), m = numel(left), n = numel(right);
  const std::int64_t k = numel(a.extents(p.contracted));
  a.order(p.batch + p.left + p.contracted);
  b.order(p.batch + p.contracted + p.right);
  Shape shape = batch;
  for (std::int64_t extent : left) shape.push_back(extent);
  for (std::int64_t extent : right) shape.push_back(extent);
  const auto product =
      p.contracted.empty() ? reshape(a.x, {groups, m, 1}) * reshape(b.x, {groups, 1, n})
      : p.batch.empty()    ? matmul(reshape(a.x, {m, k}), reshape(b.x, {k, n}))
                           : matmul(reshape(a.x, {groups, m, k}), reshape(b.x, {groups, k, n}));
  return {reshape(product, shape), p.batch + p.left + p.right};
}

}  // namespace einsum_detail

// Sums of products of any number of tensors, by the letters of their axes: "bij,bjk->bik".
template <class B>
Tensor<B> einsum(std::string_view equation, const std::vector<Tensor<B>>& tensors) {
  using einsum_detail::Labelled;
  std::vector<Shape> shapes;
  for (const auto& t : tensors) shapes.push_back(t.shape());
  const Einsum e = Einsum::parse(equation, shapes);
  std::vector<Labelled<B>> terms;
  std::string longer;  // labels that some tensor does not have as 1
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    terms.push_back({tensors[i], e.inputs[i]});
    terms[i].take_diagonals();
    for (char label : terms[i].labels)
      if (terms[i].extent(label) != 1) longer += label;
  }
  for (auto& term : terms) term.drop(longer);
  Labelled<B> result = terms[0];
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::string later = e.output;
    for (std::size_t j = i + 1; j < terms.size(); ++j) later += terms[j].labels;
    if (i > 0) {
      result.sum_all_but(later + terms[i].labels);
      terms[i].sum_all_but(later + result.labels);
      result = einsum_detail::multiplied(result, terms[i], later);
    } else {
      result.sum_all_but(later);
    }
  }
  result.order(e.output);
  return result.x;
}
// The same of tensors one by one.
template <class B, SameTensors<Tensor<B>>... Rest>
Tensor<B> einsum(std::string_view equation, const Tensor<B>& first, const Rest&... rest) {
  return einsum(equation, std::vector<Tensor<B>>{first, rest...});
}

}  // namespace planck
