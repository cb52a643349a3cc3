#include "planck/io/npy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

using namespace std::string_literals;

// A file with a true header length, and whatever else is given.
std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file = "\x93NUMPY"s + version + '\0' + static_cast<char>(header.size() & 255) +
                     static_cast<char>(header.size() >> 8);
  if (version > 1) file += "\0\0"s;
  return file + header + data;
}
std::string npy(const std::string& descr, const std::string& order, const std::string& shape,
                const std::string& data, char version = 1) {
  const std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t length = version == 1 ? 118 : 116;  // data begin at byte 128
  return npy(header + std::string(length - 1 - header.size(), ' ') + '\n', data, version);
}

template <class T>
std::vector<T> read(const std::string& contents, const Shape& shape) {
  TemporaryDirectory dir;
  dir.write("a.npy", contents);
  const auto file = NpyFile::open(dir.file("a.npy"));
  if (!file) return ADD_FAILURE() << file.error().message, std::vector<T>{};
  EXPECT_EQ(file->shape(), shape);
  EXPECT_EQ(file->dtype(), dtype_of<T>);
  const auto values = file->values<T>();
  if (!values) return ADD_FAILURE() << values.error().message, std::vector<T>{};
  return *values;
}

// The bytes are those numpy.save writes, here and in the next test.
const std::string kF4 =
    npy("<f4", "False", "(2, 3)", "\0\0 \xc0\0\0\xc0\xbf\0\0\0\xbf\0\0\0?\0\0\xc0?\0\0 @"s);
const std::string kFortran =
    npy("<f4", "True", "(2, 3)", "\0\0\0\0\0\0@@\0\0\x80?\0\0\x80@\0\0\0@\0\0\xa0@"s);

TEST(Npy, ReadsWhatNumpyWrites) {
  EXPECT_EQ(read<float>(kF4, {2, 3}), (std::vector<float>{-2.5f, -1.5f, -.5f, .5f, 1.5f, 2.5f}));
  EXPECT_EQ(read<float>(kFortran, {2, 3}), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read<double>(npy("<f8", "False", "()", "\0\0\0\0\0\0\n@"s), {}),
            std::vector<double>{3.25});
  EXPECT_EQ(read<std::int32_t>(npy("<i4", "False", "(1, 1, 1)", "\xff\xff\xff\xff"), {1, 1, 1}),
            std::vector<std::int32_t>{-1});
  EXPECT_EQ(read<std::int64_t>(npy("<i8", "False", "(1,)", "\2\0\0\0\0\0\0\x80"s, 2), {1}),
            std::vector<std::int64_t>{INT64_MIN + 2});
  EXPECT_EQ(read<std::int8_t>(npy("|i1", "False", "(2,)", "\xfd\4", 3), {2}),
            (std::vector<std::int8_t>{-3, 4}));
  EXPECT_TRUE(read<std::uint8_t>(npy("|u1", "False", "(0, 5)", ""), {0, 5}).empty());
  const auto halves = read<f16>(npy("<f2", "False", "(3,)", "\0<\0\xc0\0008"s), {3});
  ASSERT_EQ(halves.size(), 3u);
  EXPECT_EQ(static_cast<float>(halves[0]), 1.0f);
  EXPECT_EQ(static_cast<float>(halves[1]), -2.0f);
  EXPECT_EQ(static_cast<float>(halves[2]), 0.5f);
}

TEST(Npy, KeysInAnyOrderAndAnySpaces) {
  EXPECT_EQ(read<std::uint8_t>(
                npy(R"( {"shape" :(2,1,),"fortran_order":True , "descr":'<u1'})", "\1\2"), {2, 1}),
            (std::vector<std::uint8_t>{1, 2}));
}

TEST(Npy, ViewsShowTheOrderInTheirStrides) {
  TemporaryDirectory dir;
  dir.write("f.npy", kFortran);
  dir.write("odd.npy", npy("{'descr':'<f4','fortran_order':False,'shape':(1,)}\n", "\0\0\x80?"s));
  const auto file = NpyFile::open(dir.file("f.npy"));
  ASSERT_TRUE(file);
  const auto view = file->view();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->strides, (Strides{1, 2}));
  EXPECT_EQ(static_cast<const float*>(view->data)[1], 3.0f);
  const auto odd = NpyFile::open(dir.file("odd.npy"));
  ASSERT_TRUE(odd) << odd.error().message;
  ASSERT_FALSE(odd->view());
  EXPECT_EQ(odd->view().error().message,
            dir.file("odd.npy") + ": data lie at byte 61, f32 needs a multiple of 4");
  EXPECT_EQ(*odd->values<float>(), std::vector<float>{1});
}

TEST(Npy, WritesTheBytesNumpyWrites) {
  TemporaryDirectory dir;
  const std::vector<float> values = {-2.5f, -1.5f, -.5f, .5f, 1.5f, 2.5f};
  const TensorView<const float> array(values.data(), {2, 3});
  ASSERT_TRUE(write_npy(dir.file("a"), array));
  EXPECT_EQ(dir.contents("a"), kF4);
}

template <class T>
void expect_round_trip(std::vector<T> values, const Shape& shape, const Strides& strides,
                       std::vector<T> row_major_values) {
  TemporaryDirectory dir;
  const TensorView<T> array(values.data(), shape, strides);
  const auto written = write_npy(dir.file("a"), array);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(dir.contents("a").size() % 64, row_major_values.size() * sizeof(T) % 64);
  EXPECT_EQ(read<T>(dir.contents("a"), shape), row_major_values);
}

TEST(Npy, RoundTripsOfEveryDtypeAndStrides) {
  std::vector<std::int64_t> many(24), transposed;
  std::iota(many.begin(), many.end(), 0);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 6; ++j) transposed.push_back(i + 4 * j);
  expect_round_trip<std::int64_t>(many, {4, 6}, {1, 4}, transposed);
  expect_round_trip<std::int64_t>(many, {2, 1, 3, 4}, {12, 7, 4, 1}, many);
  expect_round_trip<double>({1, 2}, {2, 2}, {0, 1}, {1, 2, 1, 2});
  expect_round_trip<float>({1, 2, 3}, {3}, {1}, {1, 2, 3});
  expect_round_trip<std::int32_t>({-7}, {}, {}, {-7});
  expect_round_trip<std::int8_t>({-7, 1, 2}, {2}, {2}, {-7, 2});
  expect_round_trip<std::uint8_t>({}, {3, 0, 2}, {0, 2, 1}, {});
  TemporaryDirectory dir;
  bool bits[] = {true, false, true};
  ASSERT_TRUE(write_npy(dir.file("b"), TensorView<bool>(bits, {3})));
  const auto file = NpyFile::open(dir.file("b"));
  ASSERT_TRUE(file) << file.error().message;
  const auto view = file->view();
  ASSERT_TRUE(view);
  EXPECT_TRUE(std::equal(bits, bits + 3, static_cast<const bool*>(view->data)));
}

TEST(Npy, RefusesToWriteWhatTheFormatLacks) {
  TemporaryDirectory dir;
  bf16 values[1] = {};
  const auto says = [&](const View& array) {
    return write_npy(dir.file("a"), array).error().message;
  };
  EXPECT_EQ(says(TensorView<bf16>(values, {1})),
            dir.file("a") + ": dtype is bf16, which the format has no name for");
  EXPECT_EQ(says(TensorView<float>(nullptr, {-1})),
            dir.file("a") + ": shape: extent 0 is -1, must be >= 0");
  EXPECT_TRUE(dir.names().empty());
  float one = 1;
  EXPECT_EQ(write_npy(dir.file("absent/a"), TensorView<float>(&one, {1})).error().message,
            dir.file("absent/a") + ": cannot create: No such file or directory");
}

class NpyRefusals : public testing::Test {
 protected:
  // What follows the path.
  std::string says(const std::string& contents) {
    dir_.write("x", contents);
    const auto file = NpyFile::open(dir_.file("x"));
    if (file) return "accepted";
    EXPECT_EQ(file.error().code, ErrorCode::io);
    EXPECT_EQ(file.error().message.substr(0, dir_.file("x: ").size()), dir_.file("x: "));
    return file.error().message.substr(dir_.file("x: ").size());
  }
  std::string header(const std::string& text) { return says(npy(text, "")); }
  std::string shape(const std::string& text, const std::string& data = "") {
    return says(npy("<f4", "False", text, data));
  }
  TemporaryDirectory dir_;
};

TEST_F(NpyRefusals, Beginnings) {
  EXPECT_EQ(NpyFile::open(dir_.file("absent")).error().message,
            dir_.file("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(says(""), "the file has 0 bytes, an npy file has 10 at least");
  EXPECT_EQ(says("\x93NU"), "the file has 3 bytes, an npy file has 10 at least");
  EXPECT_EQ(says("NUMPY, or so they say"),
            "the file begins with \"NUMPY,\", an npy file with \"\\x93NUMPY\"");
  EXPECT_EQ(says("PK\3\4 and the rest"),
            "the file is a zip archive (.npz?): extract its arrays first");
  EXPECT_EQ(says("\x93NUMPY\4\0\0\0"s), "version is 4.0, read are 1.0, 2.0 and 3.0");
  EXPECT_EQ(says("\x93NUMPY\0\0\0\0"s), "version is 0.0, read are 1.0, 2.0 and 3.0");
  EXPECT_EQ(says("\x93NUMPY\1\1\0\0"s), "version is 1.1, read are 1.0, 2.0 and 3.0");
  EXPECT_EQ(says("\x93NUMPY\2\0\0\0"s), "the file has 10 bytes, version 2.0 has 12 at least");
  EXPECT_EQ(says("\x93NUMPY\1\0\xff\xff{}"s),
            "header length is 65535, the file has 2 bytes after it");
  EXPECT_EQ(says("\x93NUMPY\2\0\xff\xff\xff\xff{}"s),
            "header length is 4294967295, at most 65536 are read");
}

TEST_F(NpyRefusals, Headers) {
  EXPECT_EQ(header(""), "header has its end at character 0, where '{' should be");
  EXPECT_EQ(header("{}"), "header has no key \"descr\"");
  EXPECT_EQ(header("{'descr': '<f4'}"), "header has no key \"fortran_order\"");
  EXPECT_EQ(header("{'descr': '<f4', 'fortran_order': False}"), "header has no key \"shape\"");
  EXPECT_EQ(header("{'descr': '<f4', 'descr': '<f4'}"), "header has the key \"descr\" twice");
  EXPECT_EQ(header("{'color': 1}"), "header has the key \"color\", not one of the format");
  EXPECT_EQ(header("{'descr"), "header has a quote that is not closed");
  EXPECT_EQ(header("{1: 2}"),
            "header has \"1: 2}\" at character 1, where a text in quotes should be");
  EXPECT_EQ(header("{'shape' (3,)}"), "header has \"(3,)}\" at character 9, where ':' should be");
  EXPECT_EQ(header("{'shape': (3,) 'descr': '<f4'}"),
            "header has \"'descr':\" at character 15, where ',' or '}' should be");
  EXPECT_EQ(header("{'fortran_order': maybe}"),
            "header has \"maybe}\" at character 18, where True or False should be");
  EXPECT_EQ(says(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} again", "x")),
            "header has \"again\" at character 56, where nothing after '}' should be");
  EXPECT_EQ(header("{'descr': '>f4', "),
            "descr is \">f4\", big endian; only little endian is read");
  EXPECT_EQ(header("{'descr': '|O', "),
            "descr is \"|O\", read are f2, f4, f8, i1, u1, i4, i8 and b1");
  EXPECT_EQ(header("{'descr': [('a', '<f4')], "),
            "descr is a list of fields, only plain dtypes are read");
}

TEST_F(NpyRefusals, Shapes) {
  EXPECT_EQ(header("{'shape': (3)}"), "header has \")}\" at character 12, where ',' should be");
  EXPECT_EQ(header("{'shape': 3}"), "header has \"3}\" at character 10, where '(' should be");
  EXPECT_EQ(header("{'shape': (3, x)}"),
            "header has \"x)}\" at character 14, where an extent should be");
  EXPECT_EQ(shape("(-1,)"), "shape has a negative extent");
  EXPECT_EQ(shape("(9223372036854775808,)"),
            "shape has the extent 9223372036854775808…, more than fits in int64");
  EXPECT_EQ(shape("(4611686018427387904, 4)"),
            "shape [4611686018427387904, 4] of f32 has more bytes than fit in int64");
  EXPECT_EQ(shape("(0, 4611686018427387904, 4)"),
            "shape: shape [0, 4611686018427387904, 4] has more elements than fit in memory");
  EXPECT_EQ(shape("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "shape has rank 9 or more, at most 8 is read");
  EXPECT_EQ(shape("(2, 3)", std::string(23, '\0')),
            "the file has 23 bytes of data, f32 of shape [2, 3] needs 24");
  EXPECT_EQ(shape("(2, 3)", std::string(25, '\0')),
            "the file has 25 bytes of data, f32 of shape [2, 3] needs 24");
  EXPECT_EQ(shape("(1000000000, 1000)"),
            "the file has 0 bytes of data, f32 of shape [1000000000, 1000] needs 4000000000000");
}

TEST_F(NpyRefusals, Values) {
  EXPECT_EQ(says(npy("|b1", "False", "(3,)", "\0\1\2"s)), "element 2 is 2, a bool is 0 or 1");
  dir_.write("f", kF4);
  EXPECT_EQ(NpyFile::open(dir_.file("f"))->values<double>().error().message,
            dir_.file("f") + ": holds f32, read as f64");
}

}  // namespace
}  // namespace planck
