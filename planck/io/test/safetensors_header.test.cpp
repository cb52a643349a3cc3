// The parser against files written by hand, byte by byte, and a table of files that lie.
#include "planck/io/safetensors_header.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace planck {
namespace {

// A file of a header text and so many bytes of data; `length` overrides the true header length.
std::string file_of(const std::string& json, std::size_t data_bytes,
                    std::optional<std::uint64_t> length = {}) {
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>(length.value_or(json.size()) >> (8 * i) & 0xff);
  return file + json + std::string(data_bytes, '\x11');
}

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_header(std::as_bytes(std::span(file)));
}

TEST(SafetensorsHeader, ReadsNamesDtypesShapesRangesAndMetadata) {
  const auto header =
      parse(file_of(R"({"b":{"dtype":"I64","shape":[],"data_offsets":[12,20]},)"
                    R"("__metadata__":{"format":"pt","note":"a \"quoted\" \u00e9"},)"
                    R"("a":{"data_offsets":[0,12],"shape":[2,3],"dtype":"BF16"}}   )",
                    20));
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->entries.size(), 2u);
  const SafetensorsEntry& a = header->entries[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type->text, "BF16");
  EXPECT_EQ(a.type->dtype, Dtype::bf16);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.begin, 0u);
  EXPECT_EQ(a.end, 12u);
  EXPECT_EQ(header->find("b")->shape.size(), 0u);
  EXPECT_EQ(header->find("c"), nullptr);
  EXPECT_EQ(header->metadata.at("note"), "a \"quoted\" é");
}

TEST(SafetensorsHeader, KeepsEveryDtypeOfTheFormat) {
  const struct {
    const char* text;
    int bits;
    std::optional<Dtype> dtype;
  } kCases[] = {{"F64", 64, Dtype::f64},   {"F32", 32, Dtype::f32}, {"F16", 16, Dtype::f16},
                {"BF16", 16, Dtype::bf16}, {"I64", 64, Dtype::i64}, {"I32", 32, Dtype::i32},
                {"I8", 8, Dtype::s8},      {"U8", 8, Dtype::u8},    {"BOOL", 8, Dtype::boolean},
                {"I16", 16, {}},           {"U16", 16, {}},         {"U32", 32, {}},
                {"U64", 64, {}},           {"F8_E4M3", 8, {}},      {"F8_E5M2", 8, {}},
                {"F8_E8M0", 8, {}},        {"F4", 4, {}},           {"F6_E2M3", 6, {}},
                {"F6_E3M2", 6, {}},        {"C64", 64, {}}};
  for (const auto& c : kCases) {
    const auto header =
        parse(file_of(std::string(R"({"t":{"dtype":")") + c.text +
                          R"(","shape":[8],"data_offsets":[0,)" + std::to_string(c.bits) + "]}}",
                      static_cast<std::size_t>(c.bits)));
    ASSERT_TRUE(header) << c.text << ": " << header.error().message;
    EXPECT_EQ(header->entries[0].type->dtype, c.dtype) << c.text;
    if (c.dtype) {
      EXPECT_EQ(safetensors_dtype(*c.dtype), c.text);
    }
  }
  EXPECT_EQ(safetensors_dtype(Dtype::s4), "U8");
  EXPECT_EQ(safetensors_dtype(Dtype::u4), "U8");
}

TEST(SafetensorsHeader, AcceptsTheUnusualButLawful) {
  EXPECT_TRUE(parse(file_of("{}", 0)));
  EXPECT_TRUE(parse(file_of(R"({"__metadata__":{}})", 0)));
  // Empty tensors share a position; ranks above eight; a name of control characters.
  const auto header = parse(
      file_of(R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
              R"("\n\u0000":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}})",
              4));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->entries[0].shape.size(), 11u);
  EXPECT_EQ(header->entries[0].name, std::string("\n\0", 2));
}

struct Malformed {
  const char* name;
  std::string file;
  const char* says;  // part of the message
};

std::string entry(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

std::string repeated(std::string_view part, int times) {
  std::string all;
  while (times-- > 0) all += part;
  return all;
}

std::vector<Malformed> malformed_files() {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string two =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)";
  return {
      {"empty", "", "the file is empty"},
      {"seven bytes", std::string(7, 'x'),
       "the file has 7 bytes, a safetensors file has 8 at least"},
      {"header past the end", file_of("{}", 0, 3),
       "header length is 3, the file has 2 bytes after it"},
      {"header above the limit", file_of("{}", 0, 100'000'001),
       "header length is 100000001, at most 100000000"},
      {"header length of all ones", std::string(16, '\xff'),
       "header length is 18446744073709551615"},
      {"header of no length", file_of("", 8), "header length is 0"},
      {"not an object", file_of("[]", 0), "must begin with '{'"},
      {"byte order mark", file_of("\xef\xbb\xbf{}", 0), "must begin with '{'"},
      {"leading space", file_of(" {}", 0), "must begin with '{'"},
      {"cut JSON", file_of(R"({"t":{"dtype")", 0), "not valid JSON at byte"},
      {"text after the object", file_of("{}x", 0), "not valid JSON at byte 3"},
      {"NUL padding", file_of(std::string("{}\0\0", 4), 0), "not valid JSON at byte 2; a NUL"},
      {"not UTF-8", file_of("{\"\xff\xfe\":{}}", 0), "not valid JSON at byte"},
      {"a comment", file_of("{/* */}", 0), "not valid JSON at byte"},
      {"number out of range", file_of(entry(R"("shape":[1e999])"), 0), "not valid JSON"},
      {"duplicate tensor", file_of("{\"t\":{" + good + "},\"t\":{" + good + "}}", 8),
       "tensor \"t\": the name occurs twice"},
      {"duplicate field", file_of(entry(good + R"(,"dtype":"F32")"), 8),
       "tensor \"t\": dtype occurs twice"},
      {"duplicate metadata", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "__metadata__ occurs twice"},
      {"duplicate metadata key", file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
       "key \"k\" occurs twice"},
      {"metadata of numbers", file_of(R"({"__metadata__":{"k":1}})", 0),
       "key \"k\" is a number, must be a string"},
      {"metadata of objects", file_of(R"({"__metadata__":{"k":{}}})", 0),
       "key \"k\" is an object, must be a string"},
      {"metadata a string", file_of(R"({"__metadata__":"x"})", 0),
       "__metadata__ is a string, must be an object"},
      {"tensor a number", file_of(R"({"t":3})", 0), "tensor \"t\" is a number, must be an object"},
      {"tensor an array", file_of(R"({"t":[]})", 0), "tensor \"t\" is an array, must be an object"},
      {"tensor null", file_of(R"({"t":null})", 0), "tensor \"t\" is null, must be an object"},
      {"dtype missing", file_of(entry(R"("shape":[2],"data_offsets":[0,8])"), 8),
       "dtype is missing"},
      {"shape missing", file_of(entry(R"("dtype":"F32","data_offsets":[0,8])"), 8),
       "shape is missing"},
      {"offsets missing", file_of(entry(R"("dtype":"F32","shape":[2])"), 8),
       "data_offsets is missing"},
      {"unknown field", file_of(entry(good + R"(,"stride":[1])"), 8), "unknown key \"stride\""},
      {"unknown dtype", file_of(entry(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8),
       "dtype is \"F33\", not a dtype"},
      {"dtype a number", file_of(entry(R"("dtype":32)"), 8), "dtype is a number, must be a string"},
      {"shape a number", file_of(entry(R"("shape":2)"), 8), "shape is a number, must be an array"},
      {"shape of strings", file_of(entry(R"("shape":["2"])"), 8),
       "shape holds a string, must hold whole numbers"},
      {"shape of arrays", file_of(entry(R"("shape":[[2]])"), 8), "shape holds an array"},
      {"shape of fractions", file_of(entry(R"("shape":[2.5])"), 8), "shape holds the number 2.5"},
      {"negative extent", file_of(entry(R"("shape":[-2])"), 8),
       "shape holds the negative number -2"},
      {"extent of 2^63", file_of(entry(R"("shape":[9223372036854775808])"), 8),
       "shape holds the number 9223372036854775808"},
      {"extent of 2^70", file_of(entry(R"("shape":[1180591620717411303424])"), 8),
       "shape holds the number 1180591620717411303424"},
      {"product overflows",
       file_of(entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
       "more bits than fit"},
      {"product overflows before a zero",
       file_of(entry(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"), 0),
       "more bits than fit"},
      {"one offset", file_of(entry(R"("data_offsets":[0])"), 8),
       "data_offsets has 1 numbers, must have 2"},
      {"three offsets", file_of(entry(R"("data_offsets":[0,8,8])"), 8),
       "data_offsets has more than 2 numbers"},
      {"negative offset", file_of(entry(R"("data_offsets":[-1,8])"), 8),
       "data_offsets holds the negative number -1"},
      {"offsets reversed", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8),
       "end at 0, before they begin at 8"},
      {"range too short for the shape",
       file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,7])"), 7),
       "hold 7 bytes, F32 of shape [2] needs 8"},
      {"range too long for the shape",
       file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])"), 9),
       "hold 9 bytes, F32 of shape [2] needs 8"},
      {"half a byte", file_of(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
       "12 bits, not a whole number of bytes"},
      {"truncated data", file_of(entry(good), 7), "ends at byte 8, the file holds 7 bytes of data"},
      {"bytes after the last tensor", file_of(entry(good), 9),
       "tensors end at byte 8, the file holds 9"},
      {"data without a tensor", file_of("{}", 1), "tensors end at byte 0, the file holds 1"},
      {"hole at the start",
       file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12),
       "begins at byte 4, a hole after byte 0"},
      {"hole between", file_of(two + R"("data_offsets":[5,9]}})", 9),
       "tensor \"b\": begins at byte 5, a hole after byte 4"},
      {"overlap", file_of(two + R"("data_offsets":[3,7]}})", 7),
       "tensor \"b\": begins at byte 3, the tensor before it ends at 4"},
      {"same range twice", file_of(two + R"("data_offsets":[0,4]}})", 4),
       "begins at byte 0, the tensor before it ends at 4"},
      {"shape of 1001 extents",
       file_of(
           entry(R"("dtype":"U8","shape":[)" + repeated("1,", 1000) + R"(1],"data_offsets":[0,1])"),
           1),
       "shape has more than 1000 extents"},
      {"name of a megabyte and more",
       file_of("{\"" + std::string((1 << 20) + 1, 'n') + "\":{}}", 0), "at most 1048576 are read"},
      {"name that turns the line around", file_of("{\"\u202ea\xc2\x9b\":1}", 0),
       "tensor \"\\u202ea\\u009b\" is a number"},
      {"deep nesting", file_of(std::string(100000, '{'), 0), "not valid JSON at byte 2"},
      {"name of newlines", file_of("{\"a\\nb\":1}", 0), "tensor \"a\\x0ab\" is a number"},
  };
}

TEST(SafetensorsHeader, RefusesMalformedFiles) {
  for (const Malformed& m : malformed_files()) {
    const auto header = parse(m.file);
    ASSERT_FALSE(header) << m.name << " was accepted";
    EXPECT_EQ(header.error().code, ErrorCode::io) << m.name;
    EXPECT_NE(header.error().message.find(m.says), std::string::npos)
        << m.name << ": " << header.error().message;
    EXPECT_EQ(header.error().message.find('\n'), std::string::npos) << m.name;
    EXPECT_LT(header.error().message.size(), 400u) << m.name;
  }
}

TEST(SafetensorsHeader, EveryPrefixOfAGoodFileIsRefused) {
  const std::string good = file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 8);
  ASSERT_TRUE(parse(good));
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(parse(good.substr(0, n))) << n;
}

TEST(SafetensorsHeader, LayoutAlignsTensorsAndReadsBack) {
  SafetensorsHeader header;
  header.metadata = {{"k", "v\n\"é\""}};
  const auto add = [&](const char* name, const char* dtype, std::vector<std::int64_t> shape) {
    header.entries.push_back({name, find_safetensors_dtype(dtype), std::move(shape), 0, 0});
  };
  add("z", "U8", {3});
  add("a", "U8", {1});
  add("h", "BF16", {5});
  add("d", "F64", {});
  add("w \"x\"", "F32", {2, 2});
  const auto bytes = layout_header(header);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->size(), header.data_begin);
  EXPECT_EQ(header.data_begin % 8, 0u);
  const auto again = parse(*bytes + std::string(header.entries.back().end, '\0'));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->metadata, header.metadata);
  ASSERT_EQ(again->entries.size(), 5u);
  const char* kOrder[] = {"d", "w \"x\"", "h", "a", "z"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(again->entries[i].name, kOrder[i]);
    EXPECT_EQ(
        again->entries[i].begin % static_cast<std::uint64_t>(again->entries[i].type->bits / 8), 0u);
  }
}

TEST(SafetensorsHeader, LayoutRefusesNamesTheFormatCannotHold) {
  const auto says = [](std::vector<std::string> names) {
    SafetensorsHeader header;
    for (auto& n : names) header.entries.push_back({n, find_safetensors_dtype("U8"), {1}, 0, 0});
    const auto bytes = layout_header(header);
    return bytes ? "" : bytes.error().message;
  };
  EXPECT_NE(says({"a", "a"}).find("occurs twice"), std::string::npos);
  EXPECT_NE(says({"__metadata__"}).find("reserved"), std::string::npos);
  EXPECT_NE(says({"\xff"}).find("UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace planck
