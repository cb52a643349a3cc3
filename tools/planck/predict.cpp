// planck predict: what a model of the demo sees in pictures.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planck/io/npy.h"
#include "planck/plan/attributes.h"
#include "tools/planck/commands.h"
#include "tools/planck/digits/training.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct PredictArguments {
  std::string model;
  std::vector<std::string> images;
  bool json = false;
  DeviceOption device;
};

// "digits:12" is a test picture of the digits; anything else an .npy file of one picture, or many.
Result<ImageSet> pictures_of(const std::string& image) {
  constexpr std::string_view kDigits = "digits:";
  if (!image.starts_with(kDigits)) return load_pictures(image);
  const auto data = load_image_data("");
  if (!data) return tl::unexpected(data.error());
  const ImageSet& set = data->test;
  const std::int64_t i = parse_whole(std::string_view(image).substr(kDigits.size())).value_or(-1);
  if (i < 0 || i >= set.count)
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: after digits: comes a number from 0 to {}", image, set.count - 1));
  const std::int64_t pixels = set.height * set.width;
  const float* picture = set.pixels.data() + i * pixels;
  return ImageSet{1,
                  set.height,
                  set.width,
                  {picture, picture + pixels},
                  {set.labels[static_cast<std::size_t>(i)]},
                  set.classes};
}

Result<void> predict(const PredictArguments& a) {
  const auto stream = a.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  std::vector<ImageSet> sets;
  for (const std::string& image : a.images) {
    auto set = pictures_of(image);
    if (!set) return tl::unexpected(set.error());
    sets.push_back(std::move(*set));
  }
  const auto net = digits::read_net(a.model);
  if (!net) return tl::unexpected(net.error());
  const std::int64_t classes = net->options.classes;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  Table table({{"picture"}, {"seen as"}, {"probability", Table::Align::right}, {"label"}});
  for (std::size_t k = 0; k < sets.size(); ++k) {
    const std::string& image = a.images[k];
    const ImageSet* set = &sets[k];
    const auto logits = digits::logits(*net, *set, *stream);
    const auto chances =
        softmax(Tensor<Cpu>::from(std::span<const float>(logits), {set->count, classes}))
            .to_vector<float>();
    for (std::int64_t i = 0; i < set->count; ++i) {
      const float* row = chances.data() + i * classes;
      const auto best = std::max_element(row, row + classes) - row;
      const std::string name = set->count == 1 ? image : fmt::format("{}[{}]", image, i);
      const bool known = !set->labels.empty();
      const int label = known ? set->labels[static_cast<std::size_t>(i)] : -1;
      table.add({name, std::to_string(best), fmt::format("{:.1f} %", 100 * row[best]),
                 known ? std::to_string(label) : ""});
      all.push_back({{"picture", name},
                     {"class", best},
                     {"probability", row[best]},
                     {"logits", std::vector<float>(logits.begin() + i * classes,
                                                   logits.begin() + (i + 1) * classes)}});
    }
  }
  if (a.json)
    print_json(all);
  else
    print(table.text());
  return {};
}

}  // namespace

void add_predict(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<PredictArguments>();
  CLI::App* command =
      app.add_subcommand("predict", "Ask a model that the demo trained what pictures show");
  command->add_option("model", a->model, "A file of planck demo")->required();
  command
      ->add_option("images", a->images,
                   ".npy files of pictures, [H, W] or [N, H, W] (floats 0 to 1, or bytes); "
                   "digits:I is test picture I of the digits")
      ->required();
  command->add_flag("--json", a->json, "For machines: with all logits");
  a->device.add_to(*command);
  command->footer(
      "Examples:\n"
      "  planck predict planck-demo/model-int8.safetensors digits:0 digits:1\n"
      "  planck predict planck-demo/model.safetensors mine.npy --json");
  command->callback([a, &exit_code] {
    try {
      const auto done = predict(*a);
      exit_code = done ? kOk : bad_input("predict", done.error());
    } catch (const Exception& e) {
      exit_code = bad_input("predict", fmt::format("{}: {}", a->model, e.what()));
    }
  });
}

}  // namespace planck::cli
