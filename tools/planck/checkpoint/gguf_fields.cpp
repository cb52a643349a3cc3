#include "tools/planck/checkpoint/gguf_fields.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planck/io/json_depth.h"
#include "planck/io/mapped_file.h"

namespace planck::cli {

namespace {

constexpr std::size_t kMostNamed = std::size_t{1}
                                   << 22;  // a larger config.json names no architecture

// llama.cpp's numbers for a file that is mostly of one type.
std::uint32_t file_type(std::string_view type) {
  constexpr struct {
    std::string_view type;
    std::uint32_t number;
  } kNumbers[] = {{"Q4_0", 2}, {"Q4_1", 3},  {"Q8_0", 7}, {"Q5_0", 8},
                  {"Q5_1", 9}, {"Q4_K", 14}, {"Q6_K", 18}};
  for (const auto& n : kNumbers)
    if (n.type == type) return n.number;
  return 0;
}

std::string text_of(const CheckpointSource& in, std::string_view name) {
  for (const std::string& path : in.companions())
    if (std::filesystem::path(path).filename() == name)
      if (const auto file = MappedFile::open(path))
        return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
  return {};
}

}  // namespace

std::vector<GgufField> gguf_fields(const CheckpointSource& in, const TensorEncoding& blocks) {
  std::vector<GgufField> fields = in.fields();
  const auto set = [&](GgufField field) {
    const auto it = std::find_if(fields.begin(), fields.end(),
                                 [&](const auto& f) { return f.key == field.key; });
    if (it == fields.end())
      fields.push_back(std::move(field));
    else
      *it = std::move(field);
  };
  if (!in.is_gguf()) {
    std::string text = text_of(in, "config.json");
    if (text.size() > kMostNamed || nests_deeper(text, kMaxJsonDepth)) text.clear();
    const auto config = nlohmann::json::parse(text, nullptr, false);
    const bool named =
        config.is_object() && config.contains("model_type") && config["model_type"].is_string();
    set(GgufField::text("general.architecture",
                        named ? config["model_type"].get<std::string>() : "unknown"));
    set(GgufField::text("general.name", std::filesystem::path(in.path()).stem().string()));
    if (const std::string tokenizer = text_of(in, "tokenizer.json"); !tokenizer.empty())
      set(GgufField::text("tokenizer.huggingface.json", tokenizer));
  }
  set(GgufField::number("general.file_type", file_type(blocks.text)));
  set(GgufField::number("general.quantization_version", 2));
  return fields;
}

}  // namespace planck::cli
