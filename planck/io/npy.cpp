#include "planck/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "planck/io/output_file.h"

namespace planck {

namespace {

static_assert(std::endian::native == std::endian::little, "the data are little endian");

Strides fortran_strides(const Shape& shape) {
  Strides strides = Extents::filled(shape.rank(), 1);
  std::int64_t step = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    strides[d] = step;
    step *= shape[d] > 0 ? shape[d] : 1;
  }
  return strides;
}

// The elements in row-major order; byte by byte, so that any position in memory will do.
void copy_row_major(const View& view, std::byte* out) {
  const std::int64_t count = numel(view.shape);
  if (count == 0) return;
  const std::size_t size = storage_bytes(view.dtype);
  const auto* data = static_cast<const std::byte*>(view.data);
  if (is_contiguous(view.shape, view.strides)) {
    std::memcpy(out, data, static_cast<std::size_t>(count) * size);
    return;
  }
  Extents index = Extents::filled(view.shape.rank(), 0);
  for (std::int64_t i = 0; i < count; ++i, out += size) {
    std::int64_t offset = 0;
    for (int d = 0; d < index.rank(); ++d) offset += index[d] * view.strides[d];
    std::memcpy(out, data + offset * static_cast<std::int64_t>(size), size);
    for (int d = index.rank() - 1; d >= 0 && ++index[d] == view.shape[d]; --d) index[d] = 0;
  }
}

}  // namespace

Result<NpyFile> NpyFile::open(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return tl::unexpected(mapped.error());
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::io, fmt::format("{}: {}", path, why));
  };
  const auto header = parse_npy_header(mapped->bytes());
  if (!header) return refuse(header.error().message);
  if (header->dtype == Dtype::boolean) {
    const auto data = mapped->bytes().subspan(header->data_begin);
    const auto bad =
        std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end())
      return refuse(fmt::format("element {} is {}, a bool is 0 or 1", bad - data.begin(),
                                std::to_integer<int>(*bad)));
  }
  NpyFile file;
  file.path_ = path;
  file.file_ = std::move(*mapped);
  file.header_ = *header;
  return file;
}

View NpyFile::unaligned_view() const {
  const std::byte* data = file_.bytes().data() + header_.data_begin;
  return View{const_cast<std::byte*>(data), dtype(), shape(),
              header_.fortran_order ? fortran_strides(shape()) : row_major(shape()), true};
}

Result<View> NpyFile::view() const {
  const std::size_t size = storage_bytes(dtype());
  if (header_.data_begin % size != 0)  // a mapping begins with a page
    return fail(ErrorCode::io, fmt::format("{}: data lie at byte {}, {} needs a multiple of {}",
                                           path_, header_.data_begin, name(dtype()), size));
  return unaligned_view();
}

Result<void> NpyFile::copy_to(Dtype asked, std::span<std::byte> out) const {
  if (asked != dtype())
    return fail(ErrorCode::io,
                fmt::format("{}: holds {}, read as {}", path_, name(dtype()), name(asked)));
  copy_row_major(unaligned_view(), out.data());
  return {};
}

Result<void> write_npy(const std::string& path, const View& array) {
  const auto header = npy_header(array.dtype, array.shape);
  if (!header) return fail(ErrorCode::io, fmt::format("{}: {}", path, header.error().message));
  std::vector<std::byte> data(bytes_for(array.dtype, numel(array.shape)));
  copy_row_major(array, data.data());
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(*header))); !ok) return ok;
  if (auto ok = file->write_at(header->size(), data); !ok) return ok;
  return file->commit();
}

}  // namespace planck
