// planck inspect: what is in a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "planck/io/safetensors.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"
#include "tools/planck/commands.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

using Quantized = std::map<std::string, QuantizedTensor, std::less<>>;

void print_json(const SafetensorsFile& file, const Quantized& quantized) {
  nlohmann::ordered_json j{{"file", file.path()},
                           {"file_bytes", file.file_bytes()},
                           {"metadata", original_metadata(file.header())},
                           {"quantized", is_quantized_checkpoint(file.header())},
                           {"tensors", nlohmann::ordered_json::array()}};
  for (const SafetensorsEntry& e : file.entries()) {
    nlohmann::ordered_json row{{"name", e.name},
                               {"dtype", e.type->text},
                               {"shape", e.shape},
                               {"bytes", e.bytes()},
                               {"offset", file.header().data_begin + e.begin}};
    if (const auto t = quantized.find(e.name); t != quantized.end())
      row["scheme"] = nlohmann::ordered_json::parse(t->second.scheme.metadata());
    j["tensors"].push_back(std::move(row));
  }
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_table(const SafetensorsFile& file, const Quantized& quantized) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"tensor"}, {"dtype"}, {"shape"}, {"bytes", right}};
  if (!quantized.empty()) columns.insert(columns.end(), {{"scheme"}, {"original"}});
  Table table(columns);
  for (const SafetensorsEntry& e : file.entries()) {
    std::vector<std::string> row = {e.name, std::string(e.type->text), shape_text(e.shape),
                                    size_text(e.bytes())};
    if (!quantized.empty()) {
      const auto t = quantized.find(e.name);
      const bool found = t != quantized.end();
      row.push_back(found ? t->second.scheme.description() : "");
      row.push_back(found ? fmt::format("{} {}", safetensors_dtype(t->second.scheme.original_dtype),
                                        to_string(t->second.scheme.original_shape))
                          : "");
    }
    table.add(std::move(row));
  }
  fmt::print("{}", table.text());
  for (const auto& [key, value] : original_metadata(file.header()))
    fmt::print("metadata {} = {}\n", in_quotes(key), in_quotes(value));
  if (!quantized.empty()) fmt::print("{} tensors are quantized\n", quantized.size());
  fmt::print("{}: {} tensors, {}\n", printable(file.path()), file.entries().size(),
             size_text(file.file_bytes()));
}

int inspect(const std::string& path, bool json) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return bad_input("inspect", file.error());
  const auto quantized = quantized_tensors(file->header());
  if (!quantized) return bad_input("inspect", path + ": " + quantized.error().message);
  if (json)
    print_json(*file, *quantized);
  else
    print_table(*file, *quantized);
  return kOk;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string path;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show the tensors and metadata of a checkpoint");
  command->add_option("file", arguments->path, "A safetensors file")->required();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Reads the header alone, however large the file. A file that lies about its contents is "
      "refused with\n"
      "the tensor, the rule and both values.\n\n"
      "Examples:\n"
      "  planck inspect model.safetensors\n"
      "  planck inspect small.safetensors --json");
  command->callback(
      [arguments, &exit_code] { exit_code = inspect(arguments->path, arguments->json); });
}

}  // namespace planck::cli
