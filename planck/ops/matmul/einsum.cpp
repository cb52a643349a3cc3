#include <algorithm>
#include <array>

#include "planck/core/refuse.h"
#include "planck/ops/matmul/einsum.ops.h"

namespace planck {

namespace {

constexpr std::string_view kDots = "...";

bool has(std::string_view labels, char c) { return labels.find(c) != std::string_view::npos; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Axis k from the end of those that "..." stands for.
char dot_label(int k) { return static_cast<char>(1 + k); }
std::string dot_labels(int count) {
  std::string labels;
  for (int k = count - 1; k >= 0; --k) labels += dot_label(k);
  return labels;
}

// The letters of a term, with "..." replaced; its position among them.
struct Term {
  std::string letters;
  std::size_t dots = std::string::npos;
};
Term read_term(std::string_view equation, std::string_view text) {
  Term term;
  while (!text.empty()) {
    if (text.substr(0, 3) == kDots) {
      if (term.dots != std::string::npos)
        refuse("einsum: \"{}\": a term has \"...\" twice", {equation});
      term.dots = term.letters.size();
      text.remove_prefix(3);
      continue;
    }
    if (!is_letter(text[0]))
      refuse("einsum: \"{}\": '{}' is no letter", {equation, text.substr(0, 1)});
    term.letters += text[0];
    text.remove_prefix(1);
  }
  return term;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Einsum Einsum::parse(std::string_view equation, std::span<const Shape> shapes) {
  std::string text(equation);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  const std::string_view all(text);
  const auto terms = split(all.substr(0, arrow));
  if (terms.size() != shapes.size())
    refuse("einsum: \"{}\" has {} terms, {} tensors are given",
           {equation, static_cast<std::int64_t>(terms.size()),
            static_cast<std::int64_t>(shapes.size())});
  Einsum e;
  std::array<std::int64_t, 128> extents;
  extents.fill(-1);
  int most_dots = 0;
  std::string letters;  // of all terms, in their order, each as often as it stands there
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Term term = read_term(equation, terms[i]);
    const bool dots = term.dots != std::string::npos;
    const int named = static_cast<int>(term.letters.size()), rank = shapes[i].rank();
    if (dots ? named > rank : named != rank)
      refuse("einsum: \"{}\": term {} names {} axes, the tensor has shape {}",
             {equation, static_cast<std::int64_t>(i + 1), named, shapes[i]});
    std::string labels = term.letters;
    if (dots) labels.insert(term.dots, dot_labels(rank - named));
    if (dots) most_dots = std::max(most_dots, rank - named);
    letters += term.letters;
    for (int d = 0; d < rank; ++d) {
      const char label = labels[static_cast<std::size_t>(d)];
      std::int64_t& known = extents[static_cast<std::size_t>(label)];
      const std::int64_t extent = shapes[i][d];
      int where = 0;  // it stands first in this tensor
      while (labels[static_cast<std::size_t>(where)] != label) ++where;
      const std::int64_t first = shapes[i][where];
      const std::int64_t other = first != extent ? first : known;
      if (first != extent || (known != -1 && known != extent && known != 1 && extent != 1))
        refuse("einsum: \"{}\": '{}' has extent {} and {}",
               {equation, is_letter(label) ? std::string_view(&label, 1) : kDots, other, extent});
      if (known == -1 || known == 1) known = extent;
    }
    e.inputs.push_back(std::move(labels));
  }
  if (arrow == std::string::npos) {  // "..." first, then letters that stand once, by name
    e.output = dot_labels(most_dots);
    std::string once;
    for (char c : letters)
      if (std::count(letters.begin(), letters.end(), c) == 1) once += c;
    std::sort(once.begin(), once.end());
    e.output += once;
    return e;
  }
  const Term out = read_term(equation, all.substr(arrow + 2));
  for (std::size_t k = 0; k < out.letters.size(); ++k) {
    const std::string_view label = std::string_view(out.letters).substr(k, 1);
    if (!has(letters, label[0]))
      refuse("einsum: \"{}\": '{}' of the result is in no term", {equation, label});
    if (has(std::string_view(out.letters).substr(0, k), label[0]))
      refuse("einsum: \"{}\": '{}' stands twice in the result", {equation, label});
  }
  e.output = out.letters;
  if (out.dots != std::string::npos) e.output.insert(out.dots, dot_labels(most_dots));
  return e;
}

EinsumPair::EinsumPair(std::string_view a, std::string_view b, std::string_view needed) {
  for (char c : a) {
    if (!has(b, c))
      left += c;
    else
      (has(needed, c) ? batch : contracted) += c;
  }
  for (char c : b)
    if (!has(a, c)) right += c;
  const auto axes = static_cast<std::int64_t>(batch.size() + left.size() + right.size());
  if (axes > kMaxRank)
    refuse("einsum: a product of two tensors has {} axes, at most {}", {axes, kMaxRank});
}

Extents einsum_axes(std::string_view labels, std::string_view order) {
  Extents axes;
  for (char c : order) axes.push_back(static_cast<std::int64_t>(labels.find(c)));
  return axes;
}

}  // namespace planck
