#include "planck/io/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "planck/io/safetensors_header.h"

namespace planck {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;

struct NpyDtype {
  std::string_view text;
  Dtype dtype;
};
constexpr std::array<NpyDtype, 11> kDtypes = {{
    {"<f2", Dtype::f16},
    {"<f4", Dtype::f32},
    {"<f8", Dtype::f64},
    {"<i4", Dtype::i32},
    {"<i8", Dtype::i64},
    {"|i1", Dtype::s8},
    {"|u1", Dtype::u8},
    {"|b1", Dtype::boolean},
    // A byte has no order; some writers name one all the same.
    {"<i1", Dtype::s8},
    {"<u1", Dtype::u8},
    {"<b1", Dtype::boolean},
}};

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

Result<Dtype> dtype_named(std::string_view descr) {
  for (const NpyDtype& d : kDtypes)
    if (d.text == descr) return d.dtype;
  if (descr.size() > 1 && descr.front() == '>')
    return refuse(
        fmt::format("descr is {}, big endian; only little endian is read", in_quotes(descr)));
  return refuse(
      fmt::format("descr is {}, read are f2, f4, f8, i1, u1, i4, i8 and b1", in_quotes(descr)));
}

// The literal of a Python dictionary, as far as headers need it.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  Result<NpyHeader> header() {
    NpyHeader result;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return expected("'{'");
    while (!take('}')) {
      const auto key = string();
      if (!key) return tl::unexpected(key.error());
      if (!take(':')) return expected("':'");
      bool* seen = *key == "descr"           ? &has_descr
                   : *key == "fortran_order" ? &has_order
                   : *key == "shape"         ? &has_shape
                                             : nullptr;
      if (seen == nullptr)
        return refuse(fmt::format("header has the key {}, not one of the format", in_quotes(*key)));
      if (*seen) return refuse(fmt::format("header has the key {} twice", in_quotes(*key)));
      *seen = true;
      if (auto ok = value_of(*key, result); !ok) return tl::unexpected(ok.error());
      if (!take(',') && peek() != '}') return expected("',' or '}'");
    }
    if (peek() != '\0' || at_ < text_.size()) return expected("nothing after '}'");
    if (!has_descr || !has_order || !has_shape)
      return refuse(fmt::format("header has no key \"{}\"", !has_descr   ? "descr"
                                                            : !has_order ? "fortran_order"
                                                                         : "shape"));
    return result;
  }

 private:
  Result<void> value_of(std::string_view key, NpyHeader& result) {
    if (key == "descr") {
      if (peek() == '[') return refuse("descr is a list of fields, only plain dtypes are read");
      const auto descr = string();
      if (!descr) return tl::unexpected(descr.error());
      const auto dtype = dtype_named(*descr);
      if (!dtype) return tl::unexpected(dtype.error());
      result.dtype = *dtype;
    } else if (key == "shape") {
      const auto shape = tuple();
      if (!shape) return tl::unexpected(shape.error());
      result.shape = *shape;
    } else {
      result.fortran_order = word("True");
      if (!result.fortran_order && !word("False")) return expected("True or False");
    }
    return {};
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    peek();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  tl::unexpected<Error> expected(std::string_view what) {
    peek();
    return refuse(fmt::format("header has {} at character {}, where {} should be",
                              at_ < text_.size() ? in_quotes(text_.substr(at_, 8)) : "its end", at_,
                              what));
  }

  Result<std::string_view> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return expected("a text in quotes");
    const std::size_t begin = at_ + 1, end = text_.find(quote, begin);
    if (end == std::string_view::npos) return refuse("header has a quote that is not closed");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  Result<std::int64_t> extent() {
    if (peek() == '-') return refuse("shape has a negative extent");
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        return refuse(fmt::format("shape has the extent {}…, more than fits in int64",
                                  text_.substr(begin, at_ + 1 - begin)));
    if (at_ == begin) return expected("an extent");
    return value;
  }

  // (), (3,), (3, 4), (3, 4,). One extent without a comma would be a number.
  Result<Shape> tuple() {
    Shape shape;
    if (!take('(')) return expected("'('");
    while (!take(')')) {
      const auto value = extent();
      if (!value) return tl::unexpected(value.error());
      if (shape.rank() == kMaxRank)
        return refuse(
            fmt::format("shape has rank {} or more, at most {} is read", kMaxRank + 1, kMaxRank));
      shape.push_back(*value);
      if (!take(',') && (peek() != ')' || shape.rank() == 1)) return expected("','");
    }
    return shape;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.substr(0, 4) == "PK\3\4"sv)
    return refuse("the file is a zip archive (.npz?): extract its arrays first");
  if (text.substr(0, kMagic.size()) != kMagic.substr(0, text.size()))
    return refuse(fmt::format("the file begins with {}, an npy file with \"\\x93NUMPY\"",
                              in_quotes(text.substr(0, 6))));
  if (text.size() < 10)
    return refuse(fmt::format("the file has {} bytes, an npy file has 10 at least", text.size()));
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint64_t>(file[i]); };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    return refuse(fmt::format("version is {}.{}, read are 1.0, 2.0 and 3.0", byte(6), byte(7)));
  const std::size_t width = byte(6) == 1 ? 2 : 4;
  if (text.size() < 8 + width)
    return refuse(fmt::format("the file has {} bytes, version {}.0 has {} at least", text.size(),
                              byte(6), 8 + width));
  std::uint64_t length = 0;
  for (std::size_t i = width; i-- > 0;) length = length << 8 | byte(8 + i);
  if (length > kMaxNpyHeader)
    return refuse(fmt::format("header length is {}, at most {} are read", length, kMaxNpyHeader));
  if (length > text.size() - 8 - width)
    return refuse(fmt::format("header length is {}, the file has {} bytes after it", length,
                              text.size() - 8 - width));
  auto header = Literal(text.substr(8 + width, length)).header();
  if (!header) return header;
  header->data_begin = 8 + width + length;

  std::int64_t need = bits(header->dtype) / 8;
  for (const std::int64_t extent : header->shape)
    if (__builtin_mul_overflow(need, extent, &need))
      return refuse(fmt::format("shape {} of {} has more bytes than fit in int64",
                                to_string(header->shape), name(header->dtype)));
  if (auto ok = check_shape(header->shape, "shape"); !ok) return refuse(ok.error().message);
  const std::uint64_t have = text.size() - header->data_begin;
  if (have != static_cast<std::uint64_t>(need))
    return refuse(fmt::format("the file has {} bytes of data, {} of shape {} needs {}", have,
                              name(header->dtype), to_string(header->shape), need));
  return header;
}

Result<std::string> npy_header(Dtype dtype, const Shape& shape) {
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const NpyDtype& d) { return d.dtype == dtype; });
  if (known == kDtypes.end())
    return refuse(fmt::format("dtype is {}, which the format has no name for", name(dtype)));
  if (auto ok = check_shape(shape, "shape"); !ok) return refuse(ok.error().message);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", known->text,
                  fmt::join(shape.begin(), shape.end(), ", "), shape.rank() == 1 ? "," : "");
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += "\1\0"sv;
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  return bytes + text;
}

}  // namespace planck
