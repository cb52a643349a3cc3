#include "planck/io/torch/torch_file.h"

#include <fmt/format.h>

#include "planck/io/safetensors_header.h"
#include "planck/io/torch/pickle.h"
#include "planck/io/torch/zip_directory.h"

namespace planck {

namespace {

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// The member NAME of the one folder that an archive has: "archive/data.pkl".
Result<ZipDirectory::const_iterator> find_pickle(const ZipDirectory& members) {
  auto found = members.end();
  for (auto it = members.begin(); it != members.end(); ++it) {
    if (it->first != "data.pkl" && !it->first.ends_with("/data.pkl")) continue;
    if (found != members.end())
      return refuse(
          fmt::format("has two pickles, {} and {}", in_quotes(found->first), in_quotes(it->first)));
    found = it;
  }
  if (found == members.end())
    return refuse("is a ZIP archive without data.pkl, so not one of torch.save");
  return found;
}

bool is_row_major(const PickledTensor& t) {
  std::int64_t step = 1;
  for (std::size_t d = t.shape.size(); d-- > 0;) {
    if (t.shape[d] != 1 && t.strides[d] != step) return false;
    step *= t.shape[d];
  }
  return true;
}

// The tensor's first and last elements lie in its storage, which has as many as it at least: 700
// bytes whose strides are 0 could claim any shape.
Result<TorchTensor> place(PickledTensor t, const std::string& folder, const ZipDirectory& members) {
  const auto named = [&](std::string why) {
    return refuse(fmt::format("tensor {}: {}", in_quotes(t.name), why));
  };
  const auto member = members.find(folder + "data/" + t.storage);
  if (member == members.end())
    return named(fmt::format("its storage {} is not in the archive", in_quotes(t.storage)));
  const auto bytes = encoded_bytes(*t.type, t.shape);
  if (!bytes) return named(bytes.error().message);
  const auto width = static_cast<std::int64_t>(t.type->bytes);
  std::int64_t last = t.offset;
  for (std::size_t d = 0; d < t.shape.size() && *bytes > 0; ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(t.shape[d] - 1, t.strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return named(fmt::format("strides {} reach beyond 2^63", shape_text(t.strides)));
  }
  const auto held = static_cast<std::int64_t>(member->second.bytes) / width;
  if (t.offset > held || (*bytes > 0 && last >= held))
    return named(fmt::format("reaches element {}, its storage has {}", last, held));
  if (const std::int64_t elements = static_cast<std::int64_t>(*bytes) / width; elements > held)
    return named(
        fmt::format("has {} elements, its storage {}; save it with .contiguous()", elements, held));
  const bool strided = *bytes > 0 && !is_row_major(t);
  return TorchTensor{std::move(t.name), t.type, std::move(t.shape),
                     strided ? std::move(t.strides) : std::vector<std::int64_t>{},
                     member->second.begin + static_cast<std::uint64_t>(t.offset * width)};
}

}  // namespace

Result<TorchCheckpoint> parse_torch(std::span<const std::byte> file) {
  if (file.size() >= 2 && file[0] == std::byte{0x80} && file[1] <= std::byte{5})
    return refuse("is a bare pickle, PyTorch's format before 1.6; load and torch.save it again");
  const auto members = read_zip(file);
  if (!members) return tl::unexpected(members.error());
  const auto pickle = find_pickle(*members);
  if (!pickle) return tl::unexpected(pickle.error());
  const std::string folder = (*pickle)->first.substr(0, (*pickle)->first.size() - 8);
  if (const auto order = members->find(folder + "byteorder"); order != members->end()) {
    const auto text = file.subspan(order->second.begin, order->second.bytes);
    const std::string_view said(reinterpret_cast<const char*>(text.data()), text.size());
    if (said != "little")
      return refuse(fmt::format("byteorder is {}, only little is read", in_quotes(said)));
  }
  auto state = read_pickle(file.subspan((*pickle)->second.begin, (*pickle)->second.bytes));
  if (!state) return tl::unexpected(state.error());
  TorchCheckpoint checkpoint{{}, std::move(state->left_out)};
  checkpoint.tensors.reserve(state->tensors.size());
  for (PickledTensor& t : state->tensors) {
    auto placed = place(std::move(t), folder, *members);
    if (!placed) return tl::unexpected(placed.error());
    checkpoint.tensors.push_back(std::move(*placed));
  }
  return checkpoint;
}

}  // namespace planck
