#include "tools/planck/digits/forms.h"

#include <fmt/format.h>

#include <charconv>

namespace planck::digits {

namespace {

constexpr std::string_view kArchitecture = "planck digits";
constexpr std::pair<Granularity, std::string_view> kGranularities[] = {
    {Granularity::per_tensor, "per_tensor"}, {Granularity::per_channel, "per_channel"}};

std::optional<std::int64_t> number(const SafetensorsMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  std::int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

}  // namespace

std::string to_text(const Form& form) {
  if (form.kind == Form::Kind::floats) return "float";
  std::string_view weights;
  for (const auto& [granularity, text] : kGranularities)
    if (granularity == form.weights) weights = text;
  return fmt::format("{} {} {}{}", form.kind == Form::Kind::rounded ? "rounded" : "integer",
                     name(form.dtype), weights, form.learned ? " learned" : "");
}

Result<Form> parse_form(std::string_view text) {
  for (const auto kind : {Form::Kind::floats, Form::Kind::rounded, Form::Kind::integers})
    for (const Dtype dtype : {Dtype::s8, Dtype::s4})
      for (const auto& [granularity, name] : kGranularities)
        for (const bool learned : {false, true}) {
          const Form form{kind, dtype, granularity, learned};
          if (to_text(form) == text) return kind == Form::Kind::floats ? Form{} : form;
        }
  return fail(ErrorCode::invalid_problem, fmt::format("no form of a model is called '{}'", text));
}

Result<void> save_net(const std::string& path, const StoredNet& net) {
  SafetensorsMetadata metadata{{"architecture", std::string(kArchitecture)},
                               {"form", to_text(net.form)},
                               {"side", std::to_string(net.options.side)},
                               {"classes", std::to_string(net.options.classes)}};
  if (net.options.math) metadata["math"] = name(*net.options.math);
  if (net.options.dtype != Dtype::f32) metadata["dtype"] = name(net.options.dtype);
  if (net.form.kind == Form::Kind::integers) {  // the planck format: what its weights mean
    using B = Autodiff<Cpu>;
    Net<B> same = make_net<B>(net.options, net.form, B::default_device());
    metadata.merge(nn::quantization_of(same));
  }
  return nn::save_state(path, net.state, metadata);
}

Result<StoredNet> read_net(const std::string& path) {
  auto saved = nn::read_state(path);
  if (!saved) return tl::unexpected(saved.error());
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", path, what));
  };
  const auto architecture = saved->metadata.find("architecture");
  if (architecture == saved->metadata.end())
    return bad("the file does not say what model it holds; planck demo writes such files");
  if (architecture->second != kArchitecture)
    return bad(
        fmt::format("holds a model called '{}', not '{}'", architecture->second, kArchitecture));
  const auto side = number(saved->metadata, "side"), classes = number(saved->metadata, "classes");
  if (!side || *side < 4 || *side > 1024 || *side % 4 != 0)
    return bad("its metadata lacks a side that is a multiple of 4, up to 1024");
  if (!classes || *classes < 2 || *classes > 65536)
    return bad("its metadata lacks a number of classes, 2 to 65536");
  const auto form = saved->metadata.find("form");
  if (form == saved->metadata.end()) return bad("its metadata lacks the model's form");
  const auto parsed = parse_form(form->second);
  if (!parsed) return bad(parsed.error().message);
  NetOptions options{.side = *side, .classes = *classes};
  if (const auto math = saved->metadata.find("math"); math != saved->metadata.end()) {
    options.math = parse_product_math(math->second);
    if (!options.math) return bad(fmt::format("no math is called '{}'", math->second));
  }
  if (const auto dtype = saved->metadata.find("dtype"); dtype != saved->metadata.end()) {
    const auto parsed_dtype = parse_dtype(dtype->second);
    if (!parsed_dtype || !is_float(*parsed_dtype))
      return bad(fmt::format("its floats cannot be '{}'; f64, f32, bf16 or f16", dtype->second));
    options.dtype = *parsed_dtype;
  }
  return StoredNet{options, *parsed, std::move(saved->state)};
}

}  // namespace planck::digits
