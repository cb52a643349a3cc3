#include "planck/io/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "planck/io/safetensors_header.h"

namespace planck {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kAlignment = "general.alignment";
constexpr std::uint32_t kU16 = 2, kU32 = 4, kI32 = 5, kString = 8, kArray = 9, kTypes = 13;
constexpr std::uint64_t kWidths[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr int kMaxNesting = 4;
constexpr std::uint64_t kMaxName = 65535;

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// Takes values off the front of the file. After a fault every further take gives 0.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }
  bool failed() const { return failed_; }

  template <class T>
  T take() {
    T value{};
    if (const auto bytes = skip(sizeof(T)); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view skip(std::uint64_t count) {
    if (failed_ || count > left()) {
      failed_ = true;
      return {};
    }
    const auto* begin = reinterpret_cast<const char*>(file_.data()) + at_;
    at_ += count;
    return {begin, count};
  }
  std::string_view text() { return skip(take<std::uint64_t>()); }
  std::string_view since(std::uint64_t begin) const {
    return {reinterpret_cast<const char*>(file_.data()) + begin, at_ - begin};
  }

 private:
  std::span<const std::byte> file_;
  std::uint64_t at_ = 0;
  bool failed_ = false;
};

tl::unexpected<Error> ends_in(std::string_view what, const Reader& in) {
  return refuse(fmt::format("the file ends at byte {}, inside {}", in.at() + in.left(), what));
}

Result<void> skip_value(Reader& in, std::uint32_t type, int nesting) {
  if (type >= kTypes) return refuse(fmt::format("has type {}, the format has 0 to 12", type));
  if (type == kString) {
    (void)in.text();
  } else if (type != kArray) {
    (void)in.skip(kWidths[type]);
  } else {
    if (nesting == kMaxNesting)
      return refuse(fmt::format("nests arrays {} deep, {} are read", nesting + 1, kMaxNesting));
    const auto inner = in.take<std::uint32_t>();
    const auto count = in.take<std::uint64_t>();
    if (inner >= kTypes) return refuse(fmt::format("has type {}, the format has 0 to 12", inner));
    // The least that so many values take: nothing is done for a count the file cannot hold.
    const std::uint64_t least = inner == kString ? 8 : inner == kArray ? 12 : kWidths[inner];
    if (count > in.left() / least)
      return refuse(fmt::format("has {} values, the file has {} bytes left", count, in.left()));
    if (inner != kString && inner != kArray) {
      (void)in.skip(count * least);
      return {};
    }
    for (std::uint64_t i = 0; i < count && !in.failed(); ++i)
      if (auto ok = skip_value(in, inner, nesting + 1); !ok) return ok;
  }
  return {};
}

Result<GgufField> read_field(Reader& in) {
  GgufField field{std::string(in.text()), in.take<std::uint32_t>(), {}};
  if (field.key.size() > kMaxName)
    return refuse(fmt::format("key {} has {} bytes, at most {} are allowed", in_quotes(field.key),
                              field.key.size(), kMaxName));
  const std::uint64_t begin = in.at();
  if (in.failed()) return field;
  if (auto ok = skip_value(in, field.type, 0); !ok)
    return refuse(fmt::format("key {}: {}", in_quotes(field.key), ok.error().message));
  field.value = in.since(begin);
  return field;
}

Result<GgufTensor> read_tensor(Reader& in) {
  GgufTensor t;
  t.name = in.text();
  if (t.name.size() > kMaxName)
    return refuse(fmt::format("tensor {}: the name has {} bytes, at most {} are allowed",
                              in_quotes(t.name), t.name.size(), kMaxName));
  const auto rank = in.take<std::uint32_t>();
  const auto named = [&](std::string why) {
    return refuse(fmt::format("tensor {}: {}", in_quotes(t.name), why));
  };
  if (rank > 4) return named(fmt::format("has rank {}, the format has at most 4", rank));
  for (std::uint32_t d = 0; d < rank; ++d) {
    const auto extent = in.take<std::int64_t>();
    if (extent < 0)
      return named(fmt::format("has an extent of {}", static_cast<std::uint64_t>(extent)));
    t.shape.insert(t.shape.begin(), extent);
  }
  const auto type = in.take<std::uint32_t>();
  t.begin = in.take<std::uint64_t>();
  if (in.failed()) return t;
  t.type = find_gguf_encoding(type);
  if (t.type == nullptr) return named(fmt::format("has type {}, which is not known", type));
  const auto bytes = encoded_bytes(*t.type, t.shape);
  if (!bytes) return named(bytes.error().message);
  t.bytes = *bytes;
  return t;
}

Result<std::uint64_t> read_alignment(const GgufHeader& header) {
  const GgufField* field = header.find(kAlignment);
  if (field == nullptr) return 32;
  std::uint32_t value = 0;
  if (field->type != kU32 || field->value.size() != 4)
    return refuse(fmt::format("{} has type {}, must be {}", kAlignment, field->type, kU32));
  std::memcpy(&value, field->value.data(), 4);
  if (value == 0 || (value & (value - 1)) != 0 || value > 1u << 20)
    return refuse(fmt::format("{} is {}, must be a power of two up to 2^20", kAlignment, value));
  return value;
}

// The first name, in alphabetical order, that two of them have.
template <class T>
std::optional<std::string_view> name_twice(const std::vector<T>& all, std::string T::*name) {
  std::vector<std::string_view> names;
  for (const T& one : all) names.push_back(one.*name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

// As many as any checkpoint may have; what is written can be read again.
Result<void> check_counts(std::uint64_t tensors, std::uint64_t fields) {
  if (tensors <= kMaxSafetensorsEntries && fields <= kMaxSafetensorsEntries) return {};
  return refuse(fmt::format("has {} tensors and {} fields, at most {} of each are read", tensors,
                            fields, kMaxSafetensorsEntries));
}

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

Result<void> check_places(const GgufHeader& header, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const GgufTensor& t : header.tensors) {
    const auto named = [&](std::string why) {
      return refuse(fmt::format("tensor {}: {}", in_quotes(t.name), why));
    };
    if (t.begin % header.alignment != 0)
      return named(
          fmt::format("begins at byte {}, not a multiple of {}", t.begin, header.alignment));
    if (t.begin < at)
      return named(fmt::format("begins at byte {}, the tensor before it ends at {}", t.begin, at));
    if (t.begin > data_bytes || t.bytes > data_bytes - t.begin)
      return named(fmt::format("ends at byte {}, the data have {}",
                               static_cast<double>(t.begin) + static_cast<double>(t.bytes),
                               data_bytes));
    at = t.begin + t.bytes;
  }
  return {};
}

void put(std::string& out, std::string_view bytes) { out += bytes; }
template <class T>
void put_number(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}
void put_text(std::string& out, std::string_view text) {
  put_number<std::uint64_t>(out, text.size());
  put(out, text);
}

}  // namespace

GgufField GgufField::text(std::string key, std::string_view value) {
  GgufField field{std::move(key), kString, {}};
  put_text(field.value, value);
  return field;
}
GgufField GgufField::number(std::string key, std::uint32_t value) {
  GgufField field{std::move(key), kU32, {}};
  put_number(field.value, value);
  return field;
}

GgufField GgufField::number16(std::string key, std::uint16_t value) {
  GgufField field{std::move(key), kU16, {}};
  put_number(field.value, value);
  return field;
}
GgufField GgufField::signed_number(std::string key, std::int32_t value) {
  GgufField field{std::move(key), kI32, {}};
  put_number(field.value, value);
  return field;
}

const GgufField* GgufHeader::find(std::string_view key) const {
  const auto it =
      std::find_if(fields.begin(), fields.end(), [&](const GgufField& f) { return f.key == key; });
  return it == fields.end() ? nullptr : &*it;
}

Result<GgufHeader> parse_gguf(std::span<const std::byte> file) {
  Reader in(file);
  if (in.skip(4) != "GGUF"sv) return refuse("does not begin with \"GGUF\"");
  const auto version = in.take<std::uint32_t>();
  if (!in.failed() && version != 2 && version != 3)
    return refuse(fmt::format("has version {}, 2 and 3 are read{}", version,
                              (version & 0xffff) == 0 ? "; it may be big endian" : ""));
  const auto tensors = in.take<std::uint64_t>(), fields = in.take<std::uint64_t>();
  if (in.failed()) return ends_in("the counts", in);
  constexpr std::uint64_t kLeastField = 13, kLeastTensor = 24;
  if (fields > in.left() / kLeastField || tensors > in.left() / kLeastTensor)
    return refuse(fmt::format("has {} tensors and {} fields, the file has {} bytes left", tensors,
                              fields, in.left()));
  if (auto ok = check_counts(tensors, fields); !ok) return tl::unexpected(ok.error());
  GgufHeader header;
  for (std::uint64_t i = 0; i < fields; ++i) {
    auto field = read_field(in);
    if (!field) return tl::unexpected(field.error());
    if (in.failed()) return ends_in("its fields", in);
    header.fields.push_back(std::move(*field));
  }
  if (const auto twice = name_twice(header.fields, &GgufField::key))
    return refuse(fmt::format("key {} occurs twice", in_quotes(*twice)));
  for (std::uint64_t i = 0; i < tensors; ++i) {
    auto tensor = read_tensor(in);
    if (!tensor) return tl::unexpected(tensor.error());
    if (in.failed()) return ends_in("its list of tensors", in);
    header.tensors.push_back(std::move(*tensor));
  }
  if (const auto twice = name_twice(header.tensors, &GgufTensor::name))
    return refuse(fmt::format("tensor {}: the name occurs twice", in_quotes(*twice)));
  const auto alignment = read_alignment(header);
  if (!alignment) return tl::unexpected(alignment.error());
  header.alignment = *alignment;
  // A file without tensors may end where its fields do.
  header.data_begin = rounded_up(in.at(), header.alignment);
  if (tensors == 0) header.data_begin = std::min<std::uint64_t>(header.data_begin, file.size());
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
  if (header.data_begin > file.size()) return ends_in("the padding before its data", in);
  if (auto ok = check_places(header, file.size() - header.data_begin); !ok)
    return tl::unexpected(ok.error());
  return header;
}

Result<std::string> layout_gguf(GgufHeader& header) {
  const auto alignment = read_alignment(header);
  if (!alignment) return tl::unexpected(alignment.error());
  header.alignment = *alignment;
  if (auto ok = check_counts(header.tensors.size(), header.fields.size()); !ok)
    return tl::unexpected(ok.error());
  std::string out = "GGUF";
  put_number<std::uint32_t>(out, 3);
  put_number<std::uint64_t>(out, header.tensors.size());
  put_number<std::uint64_t>(out, header.fields.size());
  for (const GgufField& f : header.fields) {
    put_text(out, f.key);
    put_number(out, f.type);
    put(out, f.value);
  }
  std::uint64_t at = 0;
  for (GgufTensor& t : header.tensors) {
    const auto named = [&](std::string why) {
      return refuse(fmt::format("tensor {}: {}", in_quotes(t.name), why));
    };
    if (t.type->gguf < 0) return named(fmt::format("is {}, GGUF has no such type", t.type->text));
    if (t.shape.size() > 4)
      return named(fmt::format("has rank {}, GGUF has at most 4", t.shape.size()));
    const auto bytes = encoded_bytes(*t.type, t.shape);
    if (!bytes) return named(bytes.error().message);
    t.begin = at;
    t.bytes = *bytes;
    at = rounded_up(at + t.bytes, header.alignment);
    put_text(out, t.name);
    // A scalar is written with one extent: rank 0 is not known to every reader.
    put_number(out, static_cast<std::uint32_t>(std::max<std::size_t>(t.shape.size(), 1)));
    if (t.shape.empty()) put_number<std::int64_t>(out, 1);
    for (std::size_t d = t.shape.size(); d-- > 0;) put_number(out, t.shape[d]);
    put_number(out, static_cast<std::uint32_t>(t.type->gguf));
    put_number(out, t.begin);
  }
  out.resize(rounded_up(out.size(), header.alignment), '\0');
  header.data_begin = out.size();
  return out;
}

std::uint64_t gguf_file_bytes(const GgufHeader& header) {
  if (header.tensors.empty()) return header.data_begin;
  const GgufTensor& last = header.tensors.back();
  return header.data_begin + rounded_up(last.begin + last.bytes, header.alignment);
}

}  // namespace planck
