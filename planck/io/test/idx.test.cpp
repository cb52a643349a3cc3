#include "planck/io/idx.h"

#include <gtest/gtest.h>

#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

using namespace std::string_literals;

TEST(Idx, ReadsBytesOfAnyRank) {
  TemporaryDirectory dir;
  dir.write("labels", "\0\0\x08\x01\0\0\0\3abc"s);
  dir.write("images", "\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3abcdef"s);
  dir.write("none", "\0\0\x08\x02\0\0\0\0\0\0\1\0"s);
  const auto labels = IdxFile::open(dir.file("labels"));
  ASSERT_TRUE(labels) << labels.error().message;
  EXPECT_EQ(labels->shape(), std::vector<std::int64_t>{3});
  EXPECT_EQ(std::to_integer<char>(labels->bytes()[2]), 'c');
  const auto images = IdxFile::open(dir.file("images"));
  ASSERT_TRUE(images) << images.error().message;
  EXPECT_EQ(images->shape(), (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(images->bytes().size(), 6u);
  EXPECT_EQ(std::to_integer<char>(images->bytes()[0]), 'a');
  const auto none = IdxFile::open(dir.file("none"));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->shape(), (std::vector<std::int64_t>{0, 256}));

  std::string deep = "\0\0\x08\xff"s;  // 255 extents of 1
  for (int d = 0; d < 255; ++d) deep += "\0\0\0\1"s;
  dir.write("deep", deep + "x");
  const auto file = IdxFile::open(dir.file("deep"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->shape().size(), 255u);
}

TEST(Idx, RefusesWithPathAndReason) {
  TemporaryDirectory dir;
  const auto says = [&](const std::string& contents) {
    dir.write("x", contents);
    const auto file = IdxFile::open(dir.file("x"));
    if (file) return "accepted"s;
    EXPECT_EQ(file.error().code, ErrorCode::io);
    EXPECT_EQ(file.error().message.substr(0, dir.file("x: ").size()), dir.file("x: "));
    return file.error().message.substr(dir.file("x: ").size());
  };
  EXPECT_EQ(IdxFile::open(dir.file("absent")).error().message,
            dir.file("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(says("\x1f\x8b\x08\0and so on"s), "the file is compressed (gzip): decompress it first");
  EXPECT_EQ(says("\x1f\x8b"), "the file is compressed (gzip): decompress it first");
  EXPECT_EQ(says(""), "the file has 0 bytes, an IDX file has 8 at least");
  EXPECT_EQ(says("\0\0\x08"s), "the file has 3 bytes, an IDX file has 8 at least");
  EXPECT_EQ(says("text"), "the file begins with bytes 74 65, an IDX file with 00 00");
  EXPECT_EQ(says("\0\0\x0d\x01\0\0\0\1abcd"s), "type is 0x0d, only 0x08 (unsigned bytes) is read");
  EXPECT_EQ(says("\0\0\x08\0"s), "rank is 0, must be 1 or more");
  EXPECT_EQ(says("\0\0\x08\x03\0\0\0\1\0\0\0\1"s),
            "the file has 12 bytes, a header of rank 3 has 16");
  EXPECT_EQ(says("\0\0\x08\x01\0\0\0\3ab"s), "the file has 2 bytes of data, shape [3] needs 3");
  EXPECT_EQ(says("\0\0\x08\x01\0\0\0\3abcd"s), "the file has 4 bytes of data, shape [3] needs 3");
  EXPECT_EQ(says("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff"s),
            "shape [4294967295, 4294967295] has more bytes than fit in int64");
  EXPECT_EQ(says("\0\0\x08\x02\x7f\xff\xff\xff\x7f\xff\xff\xff"s),
            "the file has 0 bytes of data, shape [2147483647, 2147483647] needs "
            "4611686014132420609");
}

}  // namespace
}  // namespace planck
