#include "tools/planck/report/demo_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

using nlohmann::ordered_json;

// The most classes whose confusions are written as a matrix.
constexpr int kMatrixClasses = 64;

std::string signed_count(std::int64_t gained, std::int64_t lost) {
  return fmt::format("+{} -{}", gained, lost);
}

const digits::Measured* find(const digits::Outcome& outcome, Dtype dtype, bool in_training) {
  for (const digits::Measured& m : outcome.models)
    if (m.form ==
        digits::Form{digits::Form::Kind::integers, dtype, Granularity::per_channel, in_training})
      return &m;
  return nullptr;
}

std::string about_errors(const digits::Verdicts& v) {
  return fmt::format(
      "Accuracy: {} test pictures in {} distorted views each; against float, answers that became "
      "right and wrong. Intervals of 95 % count pictures, as views of one picture are right or "
      "wrong together. They are of these weights; another seed trains others.",
      v.pictures, v.views);
}

std::string about_training(Dtype dtype, const digits::Measured& after,
                           const digits::Measured& within) {
  const auto c = digits::compare(after.verdicts, within.verdicts);
  const std::string_view verdict = !c.beyond_error() ? "no difference beyond the error"
                                   : c.difference > 0
                                       ? "training with quantization beats rounding after training"
                                       : "rounding after training beats training with quantization";
  return fmt::format(
      "{} per channel: training with quantization reads {:.2f} %, rounding after training {:.2f} "
      "%; {:+.2f} ± {:.2f} points, {} pictures are read better and {} worse (sign test, p = "
      "{:.2g}): {}.",
      name(dtype), 100 * within.verdicts.share(), 100 * after.verdicts.share(), 100 * c.difference,
      100 * c.half_width, c.better, c.worse, c.chance, verdict);
}

std::string about_time(const digits::Measured& floats, const digits::Measured& integers,
                       const digits::LayerCosts& c) {
  const double f = floats.microseconds_per_image, i = integers.microseconds_per_image;
  const std::string_view verdict = i < 0.95 * f   ? "Integers are faster"
                                   : i > 1.05 * f ? "Integers are slower"
                                                  : "Integers are as fast as floats";
  return fmt::format(
      "{} here: {:.1f} µs per image for s8 per channel, {:.1f} for {}. The layers that are "
      "quantized, timed one by one, take {:.1f} µs as integers and {:.1f} as floats: products "
      "{:.1f} "
      "and {:.1f}, what is around them {:.1f} (rounding inputs {:.1f}, scaling sums and adding the "
      "bias {:.1f}) and {:.1f} (adding the bias). All else is float in both.",
      verdict, i, f, floats.name, c.integers, c.floats, c.integer_products, c.float_products,
      c.integers - c.integer_products, c.rounding, c.integers - c.integer_products - c.rounding,
      c.floats - c.float_products);
}

// Weights of a layer: of the float model, and what the integers of the other stand for.
TrainingReport::Histogram histogram_of(const nn::StateDict& floats, const nn::StateDict& integers,
                                       const std::string& layer) {
  const auto stream = Stream::cpu(1);
  const std::string name = layer + ".weight";
  const auto before =
      nn::as_dtype(nn::to_tensor<Cpu, FloatKind>(floats.at(name), stream), Dtype::f32);
  const auto codes = nn::to_tensor<Cpu, IntKind>(integers.at(name), stream);
  const auto scale = nn::to_tensor<Cpu, FloatKind>(integers.at(name + "_scale"), stream);
  const QuantScheme scheme{.granularity = Granularity::per_channel, .dtype = codes.dtype()};
  const auto after =
      dequantize(QuantizedTensor<Cpu>{codes, scale, to_int(zeros_like(scale), Dtype::i32), scheme});
  const std::int64_t rows = before.extent(0);  // packed rows may be one element longer
  return {fmt::format("{} as {}", layer, planck::name(codes.dtype())), before.to_vector<float>(),
          slice(reshape(after, {rows, -1}), 1, 0, before.numel() / rows).to_vector<float>()};
}

ordered_json json_of(const digits::Comparison& c) {
  return {{"difference", c.difference},
          {"half_width", c.half_width},
          {"gained", c.gained},
          {"lost", c.lost},
          {"better", c.better},
          {"worse", c.worse},
          {"p", c.chance},
          {"beyond_error", c.beyond_error()}};
}

ordered_json json_of(const digits::Verdicts& v) {
  const auto counts = digits::confusion_of(v);
  const auto classes = static_cast<std::size_t>(v.classes);
  ordered_json rows = ordered_json::array();
  for (std::size_t label = 0; label < classes; ++label) {
    const auto row = counts.begin() + static_cast<std::ptrdiff_t>(label * classes);
    if (v.classes <= kMatrixClasses)
      rows.push_back(std::vector<std::int64_t>(row, row + v.classes));
    else
      for (std::size_t read = 0; read < classes; ++read)
        if (counts[label * classes + read] > 0)
          rows.push_back({label, read, counts[label * classes + read]});
  }
  return rows;
}

ordered_json json_of(const digits::Measured& m, const digits::Measured& floats) {
  const auto a = digits::accuracy_of(m.verdicts);
  ordered_json j{{"name", m.name},
                 {"form", digits::to_text(m.form)},
                 {"accuracy", a.share},
                 {"interval", {a.low, a.high}},
                 {"standard_error", a.error},
                 {"right", a.right},
                 {"answers", m.verdicts.answers()},
                 {"bytes", m.bytes},
                 {"microseconds_per_image", m.microseconds_per_image}};
  if (&m != &floats) j["against_float"] = json_of(digits::compare(floats.verdicts, m.verdicts));
  j["right_views"] = m.verdicts.right_views();
  j[m.verdicts.classes <= kMatrixClasses ? "confusion" : "confusion_label_read_count"] =
      json_of(m.verdicts);
  return j;
}

// A value that is no list of lists and no object takes no line of its own.
void write_lines(std::string& out, const ordered_json& j, std::size_t indent) {
  const auto text = [](const ordered_json& value) {
    return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  if (!j.is_structured() || j.empty()) {
    out += text(j);
    return;
  }
  if (j.is_array() && j.front().is_number()) {
    for (std::size_t i = 0; i < j.size(); ++i) out += (i == 0 ? "[" : ", ") + text(j[i]);
    out += "]";
    return;
  }
  const std::string inner(indent + 2, ' ');
  char before = j.is_array() ? '[' : '{';
  for (const auto& item : j.items()) {
    out += before + ("\n" + inner);
    if (j.is_object()) out += text(item.key()) + ": ";
    write_lines(out, item.value(), indent + 2);
    before = ',';
  }
  out += "\n" + std::string(indent, ' ') + (j.is_array() ? "]" : "}");
}

std::string caption_of(const digits::SeenPair& p, const std::vector<std::string>& names,
                       std::int64_t views) {
  std::string others;
  for (std::size_t i = 1; i < p.read.size(); ++i)
    others += fmt::format("{}{}: {}", i > 1 ? ", " : "", names[i], p.read[i]);
  return fmt::format("{}; misread in {} of {} views", others, p.misread, views);
}

}  // namespace

std::string DemoResults::table() const {
  using enum Table::Align;
  Table table({{"model"},
               {"accuracy", right},
               {"95 % interval", right},
               {"against float", right},
               {"size", right},
               {"µs per image", right}});
  const auto& first = outcome.models.front().verdicts;
  for (const digits::Measured& m : outcome.models) {
    const auto a = digits::accuracy_of(m.verdicts);
    const auto c = digits::compare(first, m.verdicts);
    table.add({m.name, fmt::format("{:.2f} %", 100 * a.share),
               fmt::format("{:.2f} to {:.2f}", 100 * a.low, 100 * a.high),
               &m.verdicts == &first ? "" : signed_count(c.gained, c.lost), size_text(m.bytes),
               fmt::format("{:.1f}", m.microseconds_per_image)});
  }
  return table.text();
}

std::vector<std::string> DemoResults::findings() const {
  const digits::Measured& floats = outcome.models.front();
  std::vector<std::string> all{about_errors(floats.verdicts)};
  for (const Dtype dtype : {Dtype::s8, Dtype::s4}) {
    const auto *after = find(outcome, dtype, false), *within = find(outcome, dtype, true);
    if (after != nullptr && within != nullptr)
      all.push_back(about_training(dtype, *after, *within));
  }
  if (const auto* integers = find(outcome, Dtype::s8, true);
      integers != nullptr && integers->microseconds_per_image > 0)
    all.push_back(about_time(floats, *integers, outcome.costs));
  return all;
}

ordered_json DemoResults::json() const {
  const digits::Measured& floats = outcome.models.front();
  ordered_json models = ordered_json::array(), in_training = ordered_json::object();
  for (const digits::Measured& m : outcome.models) models.push_back(json_of(m, floats));
  for (const Dtype dtype : {Dtype::s8, Dtype::s4})
    if (const auto* after = find(outcome, dtype, false), *within = find(outcome, dtype, true);
        after != nullptr && within != nullptr)
      in_training[std::string(name(dtype))] =
          json_of(digits::compare(after->verdicts, within->verdicts));
  const digits::LayerCosts& c = outcome.costs;
  return {{"made", made.json()},
          {"data",
           {{"name", data},
            {"train", trained_with},
            {"test", floats.verdicts.pictures},
            {"views", floats.verdicts.views},
            {"classes", floats.verdicts.classes}}},
          {"options",
           {{"dtype", name(options.dtype)},
            {"math", name(options.math.value_or(default_product_math(options.dtype)))},
            {"epochs", options.epochs},
            {"qat_epochs", options.qat_epochs},
            {"batch", options.batch},
            {"seed", options.seed}}},
          {"sha256", outcome.sha256},
          {"integers_equal", outcome.integers_equal},
          {"findings", findings()},
          {"images_per_second", outcome.images_per_second},
          {"share_of_time_waiting",
           {{"for_others", outcome.waited}, {"for_bytes_alone", outcome.communication}}},
          {"in_training_against_after", in_training},
          {"layer_microseconds_per_image",
           {{"float", c.floats},
            {"float_products", c.float_products},
            {"s8", c.integers},
            {"s8_products", c.integer_products},
            {"s8_rounding", c.rounding}}},
          {"models", models}};
}

TrainingReport DemoResults::report() const {
  TrainingReport report;
  report.title = fmt::format("Planck: {}, trained and quantized", data);
  report.device = made.device == "cpu" ? made.cpu : made.device_name;
  report.weights_sha256 = outcome.sha256;
  report.facts = made.facts();
  report.findings = findings();
  const auto all = digits::stages(options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& c = outcome.curves[i];
    report.curves.push_back(
        {all[i].name, {c.loss.begin(), c.loss.end()}, {c.accuracy.begin(), c.accuracy.end()}});
  }
  const auto& first = outcome.models.front().verdicts;
  for (const digits::Measured& m : outcome.models) {
    const auto a = digits::accuracy_of(m.verdicts);
    const auto c = digits::compare(first, m.verdicts);
    report.models.push_back({m.name, a.share, a.low, a.high, m.bytes, m.microseconds_per_image,
                             &m.verdicts == &first ? "" : signed_count(c.gained, c.lost)});
  }
  std::vector<std::string> names;
  for (const std::size_t i : outcome.measured) {
    const digits::Measured& m = outcome.models[i];
    names.push_back(i == 0 ? m.name : std::string(name(m.form.dtype)));
    report.confusions.push_back({m.name, m.verdicts.classes, digits::confusion_of(m.verdicts)});
  }
  const auto pair_of = [&](const digits::SeenPair& p, std::string note) {
    return TrainingReport::Pair{options.side, options.side,   p.before,       p.after,
                                p.label,      p.read.front(), std::move(note)};
  };
  for (const digits::SeenPair& p : outcome.examples) report.examples.push_back(pair_of(p, ""));
  for (const digits::SeenPair& p : outcome.mistakes)
    report.mistakes.push_back(pair_of(p, caption_of(p, names, first.views)));
  report.misread = fmt::format("{} of {} test pictures are misread in one of {} views or more",
                               outcome.misread_pictures, first.pictures, first.views);
  const auto& models = outcome.float_and_integers;
  for (const char* layer : {"conv1", "conv2", "hidden", "output"})
    report.weights.push_back(histogram_of(models[0].state, models.back().state, layer));
  return report;
}

std::string readable(const ordered_json& json) {
  std::string out;
  write_lines(out, json, 0);
  return out + "\n";
}

}  // namespace planck::cli
