// planck inspect: what is in a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planck/io/checkpoint/source.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"
#include "tools/planck/commands.h"
#include "tools/planck/print/gguf_values.h"
#include "tools/planck/print/left_out.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

using Quantized = std::map<std::string, QuantizedTensor, std::less<>>;

constexpr std::size_t kMostFields = 4096;  // of GGUF that are shown: real files have some dozens

// The text of a value, as an element of an array in an object. No string of it holds a newline.
std::string indented(std::string_view text) {
  text.remove_suffix(1);  // its newline
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

// Rows are written as they come: a million of them take no memory.
void report_json(const std::vector<std::string>& paths, const CheckpointSource& file,
                 const Quantized& quantized) {
  nlohmann::ordered_json j{{"file", paths.size() == 1 ? nlohmann::ordered_json(paths[0])
                                                      : nlohmann::ordered_json(paths)},
                           {"file_bytes", file.file_bytes()},
                           {"metadata", original_metadata(file.metadata())},
                           {"quantized", is_quantized_checkpoint(file.metadata())},
                           {"fields", nlohmann::ordered_json::object()}};
  const std::size_t fields = std::min(file.fields().size(), kMostFields);
  for (std::size_t i = 0; i < fields; ++i)
    j["fields"][file.fields()[i].key] = gguf_json(file.fields()[i]);
  if (fields < file.fields().size()) j["fields_left_out"] = file.fields().size() - fields;
  if (const LeftOut& left_out = file.left_out(); left_out.count > 0)
    j["left_out"] = {{"count", left_out.count}, {"names", left_out.names}};
  j["tensors"] = nlohmann::ordered_json::array();
  std::string text = json_text(j);
  text.resize(text.rfind("[]") + 1);
  print_asked_for(text);
  bool first = true;
  for (const SourceTensor& e : file.tensors()) {
    nlohmann::ordered_json row{{"name", e.name},
                               {"dtype", e.type->text},
                               {"shape", e.shape},
                               {"bytes", e.bytes()},
                               {"offset", e.begin}};
    if (const auto t = quantized.find(e.name); t != quantized.end())
      row["scheme"] = nlohmann::ordered_json::parse(t->second.scheme.metadata());
    print_asked_for(first ? "\n" : ",\n");
    print_asked_for(indented(json_text(row)));
    first = false;
  }
  print_asked_for(first ? "]\n}\n" : "\n  ]\n}\n");
}

void report_table(const std::vector<std::string>& paths, const CheckpointSource& file,
                  const Quantized& quantized) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {
      {"tensor"}, {"dtype", left, 2}, {"shape"}, {"bytes", right, 1}};
  if (!quantized.empty()) columns.insert(columns.end(), {{"scheme"}, {"original", left, 3}});
  Table table(columns);
  for (const SourceTensor& e : file.tensors()) {
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
  print(table.text());
  for (const auto& [key, value] : original_metadata(file.metadata()))
    print("metadata {} = {}\n", in_quotes(key), in_quotes(value));
  const std::size_t fields = std::min(file.fields().size(), kMostFields);
  for (std::size_t i = 0; i < fields; ++i)
    print("field {} = {}\n", printable(file.fields()[i].key), gguf_text(file.fields()[i]));
  if (fields < file.fields().size()) print("and {} more fields\n", file.fields().size() - fields);
  print(left_out_line(file.left_out()));
  if (!quantized.empty())
    print("{} quantized\n",
          quantized.size() == 1 ? "1 tensor is" : fmt::format("{} tensors are", quantized.size()));
  print("{}{}: {} tensor{}, {}\n", printable(file.path()),
        paths.size() == 1 ? "" : fmt::format(" and {} more", paths.size() - 1),
        file.tensors().size(), file.tensors().size() == 1 ? "" : "s", size_text(file.file_bytes()));
}

int inspect(const std::vector<std::string>& paths, bool json) {
  const auto file = CheckpointSource::open(paths);
  if (!file) return bad_input("inspect", file.error());
  const auto quantized = quantized_tensors(*file);
  if (!quantized) return bad_input("inspect", file->path() + ": " + quantized.error().message);
  if (json)
    report_json(paths, *file, *quantized);
  else
    report_table(paths, *file, *quantized);
  return kOk;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::vector<std::string> paths;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show the tensors and metadata of a checkpoint");
  command
      ->add_option("file", arguments->paths,
                   "Files, a folder or an index.json: safetensors, GGUF, .npy, PyTorch's")
      ->required();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Reads headers alone, however large the files are; several are one checkpoint. A file that "
      "lies about\n"
      "its contents is refused with the tensor, the rule and both values.\n\n"
      "Examples:\n"
      "  planck inspect model.safetensors\n"
      "  planck inspect llama.gguf                       its fields, too\n"
      "  planck inspect small.safetensors --json");
  command->callback(
      [arguments, &exit_code] { exit_code = inspect(arguments->paths, arguments->json); });
}

}  // namespace planck::cli
