#include "planck/io/idx.h"

#include <fmt/format.h>

#include "planck/io/safetensors_header.h"

namespace planck {

Result<IdxHeader> parse_idx_header(std::span<const std::byte> file) {
  const auto refuse = [](std::string why) { return fail(ErrorCode::io, std::move(why)); };
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(file[i]); };
  if (file.size() >= 2 && byte(0) == 0x1f && byte(1) == 0x8b)
    return refuse("the file is compressed (gzip): decompress it first");
  if (file.size() < 4)
    return refuse(fmt::format("the file has {} bytes, an IDX file has 8 at least", file.size()));
  if (byte(0) != 0 || byte(1) != 0)
    return refuse(fmt::format("the file begins with bytes {:02x} {:02x}, an IDX file with 00 00",
                              byte(0), byte(1)));
  if (byte(2) != 0x08)
    return refuse(fmt::format("type is 0x{:02x}, only 0x08 (unsigned bytes) is read", byte(2)));
  const std::size_t rank = byte(3);
  if (rank == 0) return refuse("rank is 0, must be 1 or more");
  IdxHeader header;
  header.data_begin = 4 + 4 * rank;
  if (file.size() < header.data_begin)
    return refuse(fmt::format("the file has {} bytes, a header of rank {} has {}", file.size(),
                              rank, header.data_begin));
  std::int64_t need = 1;
  bool fits = true;
  for (std::size_t d = 0; d < rank; ++d) {
    std::uint32_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) extent = extent << 8 | byte(4 + 4 * d + i);
    header.shape.push_back(extent);
    fits = fits && !__builtin_mul_overflow(need, std::int64_t{extent}, &need);
  }
  if (!fits)
    return refuse(
        fmt::format("shape {} has more bytes than fit in int64", shape_text(header.shape)));
  const std::uint64_t have = file.size() - header.data_begin;
  if (have != static_cast<std::uint64_t>(need))
    return refuse(fmt::format("the file has {} bytes of data, shape {} needs {}", have,
                              shape_text(header.shape), need));
  return header;
}

Result<IdxFile> IdxFile::open(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return tl::unexpected(mapped.error());
  auto header = parse_idx_header(mapped->bytes());
  if (!header) return fail(ErrorCode::io, fmt::format("{}: {}", path, header.error().message));
  IdxFile file;
  file.path_ = path;
  file.file_ = std::move(*mapped);
  file.header_ = std::move(*header);
  return file;
}

}  // namespace planck
