// The formulas of sigmoid.h (docs/design.md, "The math once"). tanh of f32 is not among them: see
// elementary-inl.h.

template <class N>
PLANCK_HD N sigmoid(N x) {
  const N e = exp_below(-abs_of(x)), below = e + Element<N>(1);
  return finished(choose(is_negative(x), e, Element<N>(1)) / below);
}

template <class N>
PLANCK_HD N silu(N x) {
  using E = Element<N>;
  constexpr E kFar = sizeof(E) == 4 ? E(120) : E(800);  // x e^-|x| is 0 from here on
  const N a = at_most(abs_of(x), kFar);
  const ExpParts<N> p = exp_parts(-a);
  const N factor = exp_of_rest(p.r);
  const auto negative = is_negative(x);
  const N y = choose(negative, -(a * factor), x) / (scaled(factor, p.n, p.shifted) + E(1));
  return finished(choose(negative, scaled(y, p.n, p.shifted), y));
}
