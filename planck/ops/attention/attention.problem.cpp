#include "planck/ops/attention/attention.problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {{"q", Role::input},  {"k", Role::input},
                                    {"v", Role::input},  {"mask", Role::input, true},
                                    {"y", Role::output}, {"lse", Role::output}};
constexpr OperandInfo kBackward[] = {
    {"q", Role::input},   {"k", Role::input},   {"v", Role::input},  {"mask", Role::input, true},
    {"y", Role::input},   {"lse", Role::input}, {"dy", Role::input}, {"dq", Role::output},
    {"dk", Role::output}, {"dv", Role::output}};

constexpr AttributeInfo kAttributes[] = {
    {"scale", "", "what scores are multiplied by; else 1 / sqrt(D)"},
    {"causal", "false", "query i sees keys up to i + S - L: the last query sees all"},
    {"window", "0", "of the keys that causal leaves, the last so many; 0: all"},
    {"math", "",
     "what a product means: chain, or tensor_core (bf16, f16, f32 as TF32); else the dtype's own: "
     "chain for f32 and f64, tensor_core for bf16 and f16"},
    {"soft_cap", "0", "scores become soft_cap * tanh(score / soft_cap); 0: as they are"},
    {"alibi", "false",
     "adds -slope * the distance of i + S - L and j to scores; the slope of head h is "
     "2^(-8 (h + 1) / H) where H is a power of two"},
    {"dropout", "0",
     "the probability that a probability becomes 0, others being divided by 1 - dropout; which, "
     "the numbers of random_uniform of [N, H, L, S] say"},
    {"seed", "0", "key of dropout's generator"},
    {"offset", "0", "which of the seed's streams"},
    {"query_offsets", "",
     "packed sequences, as 0,3,7: the second one has queries 3 ... 6, which see its keys alone"},
    {"key_offsets", "", "where their keys begin, and the end of the last"}};

// In the order of AttentionKind.
constexpr OpInfo kInfos[] = {
    {"attention", OpCategory::attention,
     "y = softmax(scale * q k^T + mask) v, keys in blocks of 128; lse = log of the sum of exp",
     kForward, kAttributes, false},
    {"attention_backward", OpCategory::attention,
     "p = exp(scale * q k^T + mask - lse); ds = p * (dy v^T - sum of dy * y); dq = scale * ds k; "
     "dk = scale * ds^T q; dv = p^T dy",
     kBackward, kAttributes, false},
};

constexpr std::int64_t kMostExtent = (std::int64_t{1} << 31) - 1;

}  // namespace

const OpInfo& AttentionProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

int AttentionProblem::lies_as(std::size_t operand) const {
  if (!backward()) return operand == attention_operand::y ? attention_operand::q : -1;
  return operand < attention_operand::dq ? -1 : static_cast<int>(operand) - attention_operand::dq;
}

double AttentionProblem::scale() const {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(width())));
}

std::pair<std::int64_t, std::int64_t> AttentionProblem::seen(std::int64_t i) const {
  if (!options.causal) return {0, keys()};
  const std::int64_t end = std::clamp<std::int64_t>(i + keys() - queries() + 1, 0, keys());
  return {options.window == 0 ? 0 : std::max<std::int64_t>(end - options.window, 0), end};
}

std::int64_t AttentionProblem::sequences() const {
  return std::max<std::int64_t>(static_cast<std::int64_t>(options.query_offsets.size()) - 1, 0);
}

AttentionProblem AttentionProblem::sequence(std::int64_t b) const {
  // Names every option, so that one more does not compile until it is here: a copy of them all
  // would allocate for the offsets, which no run() may.
  const auto& [factor, causal, window, product, soft_cap, alibi, dropout, seed, stream, rows,
               columns] = options;
  const auto at = static_cast<std::size_t>(b);
  const auto part = [](const Shape& all, std::int64_t count) {
    Shape shape = all;
    shape[2] = count;
    return shape;
  };
  const std::int64_t these_keys = columns[at + 1] - columns[at];
  return {.kind = kind,
          .element_dtype = element_dtype,
          .q = part(q, rows[at + 1] - rows[at]),
          .k = part(k, these_keys),
          .v = part(v, these_keys),
          .options = {factor, causal, window, product, soft_cap, alibi, dropout, seed, stream},
          .mask = mask,
          .first_query = rows[at],
          .first_key = columns[at],
          .all_queries = queries(),
          .all_keys = keys()};
}

namespace {

// Where packed sequences begin, from 0 to `end`; what is wrong, or "".
std::string wrong_offsets(std::string_view which, const std::vector<std::int64_t>& offsets,
                          std::string_view operand, std::int64_t end) {
  if (offsets.empty()) return "";
  if (offsets.front() != 0) return fmt::format("{}[0] is {}, must be 0", which, offsets.front());
  for (std::size_t b = 1; b < offsets.size(); ++b)
    if (offsets[b] < offsets[b - 1])
      return fmt::format("{0}[{1}] is {2}, must be at least {0}[{3}], which is {4}", which, b,
                         offsets[b], b - 1, offsets[b - 1]);
  if (offsets.back() != end)
    return fmt::format("{} end at {}, {} at {}: must be the same", which, offsets.back(), operand,
                       end);
  return "";
}

}  // namespace

Result<void> AttentionProblem::fits() const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", info().name, text));
  };
  if (!is_float(element_dtype))
    return invalid(fmt::format("q is {}, must be f32, f64, f16 or bf16", name(element_dtype)));
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    return invalid(fmt::format("q has shape {}, k {}, v {}: all need four axes", to_string(q),
                               to_string(k), to_string(v)));
  for (const Shape& shape : {q, k, v})
    if (auto ok = check_shape(shape, info().name); !ok) return ok;
  if (k[0] != q[0] || v[0] != q[0])
    return invalid(fmt::format("q has {} batches, k {}, v {}: must be the same", q[0], k[0], v[0]));
  if (v[1] != k[1] || v[2] != k[2])
    return invalid(fmt::format("k has {} heads of {} keys, v {} of {}: must be the same", k[1],
                               k[2], v[1], v[2]));
  if (k[1] < 1 || q[1] % k[1] != 0)
    return invalid(fmt::format("q has {} heads, k {}: must be a multiple of it", q[1], k[1]));
  if (k[3] != q[3])
    return invalid(fmt::format("q has heads of width {}, k {}: must be the same", q[3], k[3]));
  if (q[3] < 1 || v[3] < 1)
    return invalid(fmt::format("heads have widths {} and {}, must be at least 1", q[3], v[3]));
  if (q[2] > kMostExtent || k[2] > kMostExtent)
    return invalid(fmt::format("{} queries and {} keys: must be below 2^31", q[2], k[2]));
  for (const Shape& shape : {Shape{q[0], q[1], q[2], k[2]}, Shape{q[0], q[1], q[2], v[3]}})
    if (auto ok = check_shape(shape, info().name); !ok) return ok;
  if (!std::isfinite(scale())) return invalid(fmt::format("scale is {}, must be finite", scale()));
  if (options.window < 0 || options.window > kMostExtent)
    return invalid(fmt::format("window is {}, must be at least 0 and below 2^31", options.window));
  if (options.window > 0 && !options.causal)
    return invalid(fmt::format("window is {}, which needs causal", options.window));
  if (math() == ProductMath::exact || !serves(math(), element_dtype))
    return invalid(
        fmt::format("math is {}, which is not defined for {}", name(math()), name(element_dtype)));
  // Of the compute type, as kernels have it.
  const double cap =
      element_dtype == Dtype::f64 ? options.soft_cap : static_cast<float>(options.soft_cap);
  if (options.soft_cap != 0 && !(cap > 0 && std::isfinite(cap)))
    return invalid(fmt::format("soft_cap is {}, must be 0, or positive and finite in {}",
                               options.soft_cap, name(compute_dtype(element_dtype))));
  if (!(options.dropout >= 0 && options.dropout < 1))
    return invalid(fmt::format("dropout is {}, must be in [0, 1)", options.dropout));
  if (options.query_offsets.size() != options.key_offsets.size())
    return invalid(fmt::format("{} query_offsets and {} key_offsets: must be as many",
                               options.query_offsets.size(), options.key_offsets.size()));
  for (const std::string& wrong : {wrong_offsets("query_offsets", options.query_offsets, "q", q[2]),
                                   wrong_offsets("key_offsets", options.key_offsets, "k", k[2])})
    if (!wrong.empty()) return invalid(wrong);
  if (mask && *mask != Dtype::boolean && *mask != element_dtype)
    return invalid(fmt::format("mask is {}, must be {} or bool", name(*mask), name(element_dtype)));
  return {};
}

Result<void> AttentionProblem::check() const {
  if (auto ok = fits(); !ok) return ok;
  for (const auto& [which, width] : {std::pair("q", q[3]), std::pair("v", v[3])})
    if (width > kMostHeadWidth)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: {} has heads of width {}, must be at most {}", info().name,
                              which, width, kMostHeadWidth));
  return {};
}

std::array<OperandSpec, kAttentionOperands> AttentionProblem::specs() const {
  std::array<OperandSpec, kAttentionOperands> out;
  const OpInfo& op = info();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = element_dtype;
    if (operand == "q" || operand == "dq") s.shape = q;
    if (operand == "k" || operand == "dk") s.shape = k;
    if (operand == "v" || operand == "dv") s.shape = v;
    if (operand == "y" || operand == "dy") s.shape = {q[0], q[1], q[2], v[3]};
    if (operand == "lse") {
      s.dtype = compute_dtype(element_dtype);
      s.shape = {q[0], q[1], q[2]};
    }
    if (operand == "mask") {
      s.dtype = mask.value_or(element_dtype);
      s.shape = {q[0], q[1], q[2], k[2]};
      s.used = s.required = mask.has_value();
    }
  }
  return out;
}

Result<AttentionProblem> attention_problem(AttentionKind kind,
                                           const ScaledDotProductOptions& options,
                                           const InputSpec& q, const InputSpec& k,
                                           const InputSpec& v, const InputSpec* mask,
                                           bool any_width) {
  const OpInfo& op = kInfos[static_cast<std::size_t>(kind)];
  if (k.dtype != q.dtype || v.dtype != q.dtype)
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: q is {}, k {}, v {}: must be the same", op.name, name(q.dtype),
                            name(k.dtype), name(v.dtype)));
  AttentionProblem p{.kind = kind,
                     .element_dtype = q.dtype,
                     .q = q.shape,
                     .k = k.shape,
                     .v = v.shape,
                     .options = options};
  if (mask != nullptr) p.mask = mask->dtype;
  if (auto ok = any_width ? p.fits() : p.check(); !ok) return tl::unexpected(ok.error());
  return p;
}

namespace {

// Whole numbers, comma-separated.
Result<std::vector<std::int64_t>> offsets_of(const OpInfo& op, const std::string& text,
                                             std::string_view attribute) {
  std::vector<std::int64_t> out;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (rest != end && (*rest != ',' || rest + 1 == end)))
      return fail(
          ErrorCode::invalid_problem,
          fmt::format("{}: {} is {}, must be whole numbers, as 0,3,7", op.name, attribute, text));
    out.push_back(value);
    at = rest == end ? rest : rest + 1;
  }
  return out;
}

// What scores become, and which sequences there are.
Result<void> read_more(const OpInfo& op, const AttributeReader& read,
                       ScaledDotProductOptions& options) {
  const auto cap = read.number("soft_cap"), dropout = read.number("dropout");
  const auto alibi = read.boolean("alibi");
  const auto seed = read.integer("seed"), offset = read.integer("offset");
  const auto rows = offsets_of(op, read.text("query_offsets"), "query_offsets");
  const auto columns = offsets_of(op, read.text("key_offsets"), "key_offsets");
  if (!cap) return tl::unexpected(cap.error());
  if (!dropout) return tl::unexpected(dropout.error());
  if (!alibi) return tl::unexpected(alibi.error());
  if (!seed) return tl::unexpected(seed.error());
  if (!offset) return tl::unexpected(offset.error());
  if (!rows) return tl::unexpected(rows.error());
  if (!columns) return tl::unexpected(columns.error());
  options.soft_cap = *cap;
  options.alibi = *alibi;
  options.dropout = *dropout;
  options.seed = static_cast<std::uint64_t>(*seed);
  options.offset = static_cast<std::uint64_t>(*offset);
  options.query_offsets = *rows;
  options.key_offsets = *columns;
  return {};
}

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, AttentionKind kind) {
  const AttributeReader read(op, attributes);
  ScaledDotProductOptions options;
  if (!read.text("scale").empty()) {
    const auto scale = read.number("scale");
    if (!scale) return tl::unexpected(scale.error());
    options.scale = *scale;
  }
  const auto causal = read.boolean("causal");
  if (!causal) return tl::unexpected(causal.error());
  options.causal = *causal;
  const auto window = read.integer("window");
  if (!window) return tl::unexpected(window.error());
  options.window = *window;
  if (const std::string asked = read.text("math"); !asked.empty()) {
    options.math = parse_product_math(asked);
    if (!options.math || *options.math == ProductMath::exact)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: math is {}, must be chain or tensor_core", op.name, asked));
  }
  if (auto ok = read_more(op, read, options); !ok) return tl::unexpected(ok.error());
  const auto of = [&](std::string_view operand) -> const InputSpec* {
    const auto found = inputs.find(operand);
    return found == inputs.end() ? nullptr : &found->second;
  };
  return attention_problem(kind, options, *of("q"), *of("k"), *of("v"), of("mask"))
      .map([](const AttentionProblem& p) {
        return std::unique_ptr<AnyProblem>(new ErasedProblem<AttentionProblem>(p));
      });
}

}  // namespace

std::vector<OpEntry> attention_ops() {
  return entries_of_kinds<&parse>(kInfos, [](AttentionKind) { return float_elements(); });
}

}  // namespace planck
