#include "planck/verify/replay.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "planck/io/safetensors.h"

namespace planck::verify {

Result<void> write_tensors(const std::string& path, const NamedTensors& tensors) {
  std::vector<SafetensorsSpec> specs;
  for (const auto& [tensor_name, tensor] : tensors) {
    auto spec = SafetensorsSpec::of(tensor_name, tensor.dtype, tensor.shape);
    if (!spec) return tl::unexpected(spec.error());
    specs.push_back(std::move(*spec));
  }
  auto writer = SafetensorsWriter::create(path, specs, {});
  if (!writer) return tl::unexpected(writer.error());
  for (const auto& [tensor_name, tensor] : tensors)
    if (auto ok = writer->write(tensor_name, tensor.bytes); !ok) return ok;
  return writer->commit();
}

std::string replay_line(const Case& c, const NamedTensors& inputs, Device device,
                        std::string_view kernel, const std::string& folder) {
  std::error_code ignored;
  std::filesystem::path where(folder);
  if (folder.empty()) where = std::filesystem::temp_directory_path(ignored) / "planck-verify";
  std::filesystem::create_directories(where, ignored);
  const std::string stem =
      (where / fmt::format("{}-{:016x}", c.op, std::hash<std::string>{}(c.id()))).string();
  if (auto ok = write_tensors(stem + ".safetensors", inputs); !ok)
    return "inputs not written: " + ok.error().message;
  std::string line =
      fmt::format("planck run {} --in {}.safetensors --out {}.out.safetensors", c.op, stem, stem);
  for (const auto& [key, value] : c.attributes) line += fmt::format(" --set {}={}", key, value);
  line += fmt::format(" --device {} --prefer at_least=none",
                      device.kind == DeviceKind::cpu ? "cpu" : "cuda");
  if (kernel.find(':') != std::string_view::npos)
    line += fmt::format(" --prefer kernel={}", kernel);
  return line;
}

}  // namespace planck::verify
