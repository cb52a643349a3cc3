// planck eval: how often a model of the demo is right.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/planck/commands.h"
#include "tools/planck/digits/training.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct EvalArguments {
  std::string model, data;
  bool json = false;
  DeviceOption device;
};

Result<void> eval(const EvalArguments& a) {
  const auto stream = a.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  const auto net = digits::read_net(a.model);
  if (!net) return tl::unexpected(net.error());
  const auto data = load_image_data(a.data);
  if (!data) return tl::unexpected(data.error());
  if (data->test.classes != net->options.classes)
    return fail(ErrorCode::invalid_problem,
                fmt::format("{} tells {} classes apart, {} has {}", a.model, net->options.classes,
                            data->name, data->test.classes));
  const auto verdicts =
      digits::verdicts(*net, data->test, digits::RunOptions{}.test_seed(), *stream);
  const auto right = digits::accuracy_of(verdicts);
  if (a.json) {
    const nlohmann::ordered_json j{{"model", a.model},
                                   {"form", digits::to_text(net->form)},
                                   {"data", data->name},
                                   {"accuracy", right.share},
                                   {"interval", {right.low, right.high}},
                                   {"pictures", verdicts.pictures},
                                   {"views", verdicts.views},
                                   {"bytes", nn::bytes_of(net->state)},
                                   {"sha256", nn::sha256_of(net->state)}};
    print_json(j);
  } else {
    print("{}: {}, {}, {:.2f} % ({:.2f} to {:.2f}) of distorted test pictures of {}\n",
          printable(a.model), digits::to_text(net->form), size_text(nn::bytes_of(net->state)),
          100 * right.share, 100 * right.low, 100 * right.high, data->name);
  }
  return {};
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand("eval", "Test a model that the demo trained");
  command->add_option("model", a->model, "A file of planck demo")->required();
  command->add_option("--data", a->data, "As for planck demo; left out: the digits");
  command->add_flag("--json", a->json, "For machines");
  a->device.add_to(*command);
  command->footer("Examples:\n  planck eval planck-demo/model-int8.safetensors");
  command->callback([a, &exit_code] {
    try {
      const auto done = eval(*a);
      exit_code = done ? kOk : bad_input("eval", done.error());
    } catch (const Exception& e) {
      exit_code = bad_input("eval", fmt::format("{}: {}", a->model, e.what()));
    }
  });
}

}  // namespace planck::cli
