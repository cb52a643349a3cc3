#include "planck/data/images.h"

#include <gtest/gtest.h>

#include "planck/core/view.h"
#include "planck/data/digits.h"
#include "planck/io/npy.h"
#include "planck/io/sha256.h"
#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

using namespace std::string_literals;

template <class T>
std::string digest(const std::vector<T>& values) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(values)));
  return sha.hex();
}

template <class T>
void write_array(const std::string& path, std::vector<T> values, const Shape& shape) {
  const auto ok = write_npy(path, TensorView<T>(values.data(), shape));
  ASSERT_TRUE(ok) << ok.error().message;
}

std::string idx(const std::vector<char>& extents, const std::string& data) {
  std::string file = "\0\0\x08"s + static_cast<char>(extents.size());
  for (const char extent : extents) file += "\0\0\0"s + extent;
  return file + data;
}

// The digests come from a second implementation, in Python, that reads the csv file.
TEST(Digits, AreTheFileInTheRepository) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(digits_csv())));
  EXPECT_EQ(sha.hex(), "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8");
  const auto digits = load_digits();
  ASSERT_TRUE(digits) << digits.error().message;
  EXPECT_EQ(digits->count, 1797);
  EXPECT_EQ(digits->height, 8);
  EXPECT_EQ(digits->width, 8);
  EXPECT_EQ(digits->classes, 10);
  EXPECT_EQ(digits->pixels.size(), 1797u * 64);
  EXPECT_EQ(digits->labels.size(), 1797u);
  EXPECT_EQ(digits->pixels[2], 5.0f / 16);
  EXPECT_EQ(digest(digits->pixels),
            "9f578524b6cec1fc800cc52dfc87ebe56264983d490aa72a4bd928ba2570ec77");
}

TEST(Digits, SplitIsBalancedAndPinned) {
  const auto data = load_image_data("");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->name, "digits");
  EXPECT_EQ(data->train.count, 1437);
  EXPECT_EQ(data->test.count, 360);
  EXPECT_EQ(data->train.classes, 10);
  EXPECT_EQ(data->test.classes, 10);
  std::vector<int> of_class(10);
  for (const std::int32_t label : data->test.labels) ++of_class[static_cast<std::size_t>(label)];
  EXPECT_EQ(of_class, (std::vector<int>{36, 37, 35, 37, 36, 36, 36, 36, 35, 36}));
  EXPECT_EQ(digest(data->test.pixels),
            "1841d378efc8322cc7159e7c6127654551994f01a486c7407c3941e7acf320ac");
  EXPECT_EQ(digest(data->test.labels),
            "fa6ee9668b456bb186315a6caefee019ad914b1e4788a2fec4bc56539ecca00c");
  EXPECT_EQ(data->train.pixels.size(), 1437u * 64);
}

TEST(Digits, RefusesALineThatIsWrong) {
  std::string zeros;
  for (int i = 0; i < 64; ++i) zeros += "0,";
  const auto says = [](const std::string& csv) {
    const auto set = parse_digits(csv);
    return set ? "ok" : set.error().message;
  };
  EXPECT_EQ(says(zeros + "9\n"), "ok");
  EXPECT_EQ(says(""), "digits.csv: holds no line");
  EXPECT_EQ(says(zeros + "10\n"), "digits.csv: line 1: number 65 is 10, must be 0 to 9");
  EXPECT_EQ(says(zeros + "9\n17," + zeros), "digits.csv: line 2: number 1 is 17, must be 0 to 16");
  EXPECT_EQ(says("0,0\n"), "digits.csv: line 1: number 2 is not followed by a comma");
  EXPECT_EQ(says("0,x"), "digits.csv: line 1: number 2 cannot be read, a line has 65");
  EXPECT_EQ(says("-1,"), "digits.csv: line 1: number 1 is -1, must be 0 to 16");
  EXPECT_EQ(says(zeros + "9"), "digits.csv: line 1: number 65 is not followed by the line's end");
}

TEST(Split, GivesEveryClassItsShare) {
  // 11 images: 3 for testing; of 5, 5, 1 that is 1.36, 1.36, 0.27.
  ImageSet all{11, 1, 1, std::vector<float>(11), {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2}, 3};
  for (std::size_t i = 0; i < 11; ++i) all.pixels[i] = static_cast<float>(i);
  std::vector<int> chosen(11);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto parts = split(all, seed);
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->test.labels, (std::vector<std::int32_t>{0, 0, 1}));
    EXPECT_EQ(parts->train.count, 8);
    for (const float pixel : parts->test.pixels) ++chosen[static_cast<std::size_t>(pixel)];
    std::vector<float> both = parts->test.pixels;
    both.insert(both.end(), parts->train.pixels.begin(), parts->train.pixels.end());
    std::sort(both.begin(), both.end());
    EXPECT_EQ(both, all.pixels);  // nothing lost, nothing twice
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(chosen[i], 80, 35);   // two of five
  for (std::size_t i = 5; i < 10; ++i) EXPECT_NEAR(chosen[i], 40, 28);  // one of five
  EXPECT_EQ(chosen[10], 0);
  EXPECT_EQ(split(ImageSet{1, 1, 1, {0}, {0}, 1}, 0).error().message,
            "holds 1 images, two parts need 2 at least");
}

class Folder : public testing::Test {
 protected:
  std::string says() {
    const auto data = load_image_data(dir_.path());
    const auto set = load_images(dir_.path());
    if (data || set) return "accepted";
    EXPECT_EQ(data.error().message, set.error().message);
    EXPECT_EQ(data.error().code, ErrorCode::io);
    return data.error().message;
  }
  // Two images of 1 × 2 for training, one for testing.
  void write_mnist() {
    dir_.write("train-images-idx3-ubyte", idx({2, 1, 2}, "\x00\xff\x33\x01"s));
    dir_.write("train-labels-idx1-ubyte", idx({2}, "\1\4"));
    dir_.write("t10k-images-idx3-ubyte", idx({1, 1, 2}, "\x80\x00"s));
    dir_.write("t10k-labels-idx1-ubyte", idx({1}, "\2"));
  }
  TemporaryDirectory dir_;
};

TEST_F(Folder, ReadsMnist) {
  write_mnist();
  const auto data = load_image_data(dir_.path());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->name, dir_.path());
  EXPECT_EQ(data->train.pixels, (std::vector<float>{0, 1, 0.2f, 1 / 255.0f}));
  EXPECT_EQ(data->train.labels, (std::vector<std::int32_t>{1, 4}));
  EXPECT_EQ(data->test.pixels, (std::vector<float>{128 / 255.0f, 0}));
  EXPECT_EQ(data->train.classes, 5);
  EXPECT_EQ(data->test.classes, 5);
  const auto all = load_images(dir_.path());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->count, 3);
  EXPECT_EQ(all->pixels.size(), 6u);
  EXPECT_EQ(all->labels, (std::vector<std::int32_t>{1, 4, 2}));
  std::filesystem::rename(dir_.file("t10k-images-idx3-ubyte"), dir_.file("t10k-images.idx3-ubyte"));
  EXPECT_TRUE(load_images(dir_.path()));

  std::vector<float> pixels(4);
  std::vector<std::int32_t> labels(2);
  const std::int64_t order[] = {2, 0};
  gather(*all, order, pixels, labels);
  EXPECT_EQ(pixels, (std::vector<float>{128 / 255.0f, 0, 0, 1}));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{2, 1}));
}

TEST_F(Folder, ReadsNpyAndSplitsIt) {
  write_array<std::int64_t>(dir_.file("labels.npy"), {0, 1, 0, 1, 0}, {5});
  write_array<std::uint8_t>(dir_.file("images.npy"), {0, 51, 102, 153, 255}, {5, 1, 1, 1});
  const auto all = load_images(dir_.path());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->pixels, (std::vector<float>{0, 0.2f, 0.4f, 0.6f, 1}));
  const auto data = load_image_data(dir_.path());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train.count, 4);
  EXPECT_EQ(data->test.count, 1);
  EXPECT_EQ(data->test.classes, 2);

  write_array<double>(dir_.file("images.npy"), {0, 0.25, 0.5, 0.75, 1}, {5, 1, 1});
  write_array<std::uint8_t>(dir_.file("labels.npy"), {0, 1, 2, 3, 4}, {5});
  EXPECT_EQ(load_images(dir_.path())->pixels, (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(load_images(dir_.path())->classes, 5);
}

TEST_F(Folder, RefusesWhatIsMissing) {
  const std::string path = dir_.path();
  EXPECT_EQ(load_images(path + "/absent").error().message, path + "/absent: no such folder");
  dir_.write("file", "");
  EXPECT_EQ(load_images(path + "/file").error().message, path + "/file: is not a folder");
  EXPECT_EQ(says(), path + ": holds neither train-images-idx3-ubyte nor images.npy");
  write_array<float>(dir_.file("images.npy"), {1}, {1, 1, 1});
  EXPECT_EQ(says(), path + "/labels.npy: cannot open: No such file or directory");
  write_mnist();
  for (const char* name :
       {"train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string contents = dir_.contents(name);
    std::filesystem::remove(dir_.file(name));
    EXPECT_EQ(says(), dir_.file(name) + ": cannot open: No such file or directory");
    dir_.write(name + ".gz"s, "\x1f\x8b\x08");
    EXPECT_EQ(says(), dir_.file(name) + ".gz: the file is compressed (gzip): decompress it first");
    std::filesystem::remove(dir_.file(name + ".gz"s));
    dir_.write(name, contents);
  }
  std::filesystem::remove(dir_.file("train-images-idx3-ubyte"));
  dir_.write("train-images.idx3-ubyte.gz", "\x1f\x8b\x08");
  EXPECT_EQ(says(), dir_.file("train-images.idx3-ubyte.gz") +
                        ": the file is compressed (gzip): decompress it first");
}

TEST_F(Folder, RefusesIdxFilesThatDisagree) {
  write_mnist();
  dir_.write("train-labels-idx1-ubyte", idx({3}, "\1\4\2"));
  EXPECT_EQ(says(), dir_.file("train-labels-idx1-ubyte") + ": holds 3 labels, " +
                        dir_.file("train-images-idx3-ubyte") + " holds 2 images");
  write_mnist();
  dir_.write("t10k-images-idx3-ubyte", idx({1, 2, 2}, "abcd"));
  EXPECT_EQ(says(), dir_.file("t10k-images-idx3-ubyte") + ": holds images of 2 x 2 pixels, " +
                        dir_.file("train-images-idx3-ubyte") + " of 1 x 2");
  write_mnist();
  dir_.write("t10k-labels-idx1-ubyte", idx({1}, "\5"));
  EXPECT_EQ(says(), dir_.file("t10k-labels-idx1-ubyte") + ": label 0 is 5, those of " +
                        dir_.file("train-labels-idx1-ubyte") + " are 0 to 4");
  write_mnist();
  dir_.write("train-images-idx3-ubyte", idx({4}, "abcd"));
  EXPECT_EQ(says(), dir_.file("train-images-idx3-ubyte") +
                        ": shape is [4], images are [count, height, width]");
  dir_.write("train-images-idx3-ubyte", idx({2, 0, 2}, ""));
  EXPECT_EQ(says(),
            dir_.file("train-images-idx3-ubyte") + ": shape is [2, 0, 2], which holds no pixel");
  write_mnist();
  dir_.write("t10k-labels-idx1-ubyte", idx({1, 1}, "\1"));
  EXPECT_EQ(says(), dir_.file("t10k-labels-idx1-ubyte") + ": shape is [1, 1], labels are [count]");
}

TEST_F(Folder, RefusesArraysThatAreWrong) {
  const std::string images = dir_.file("images.npy"), labels = dir_.file("labels.npy");
  write_array<std::uint8_t>(labels, {0, 1}, {2});
  write_array<float>(images, {0, 1.5f}, {2, 1, 1});
  EXPECT_EQ(says(), images + ": image 1: its pixel in row 0, column 0 is 1.5, must be 0 to 1");
  write_array<float>(images, {0, -0.5f}, {2, 1, 1});
  EXPECT_EQ(says(), images + ": image 1: its pixel in row 0, column 0 is -0.5, must be 0 to 1");
  std::vector<double> pixels(2 * 3 * 4);
  pixels[1 * 12 + 2 * 4 + 3] = std::numeric_limits<double>::quiet_NaN();
  write_array<double>(images, pixels, {2, 3, 4});
  EXPECT_EQ(says(), images + ": image 1: its pixel in row 2, column 3 is nan, must be 0 to 1");
  write_array<std::int32_t>(images, {0, 1}, {2, 1, 1});
  EXPECT_EQ(says(), images + ": holds i32, pixels are u8 or floats");
  write_array<float>(images, {0, 1, 0, 1}, {1, 2, 2, 1});
  EXPECT_EQ(says(), images + ": shape is [1, 2, 2, 1], images are [count, height, width]");
  write_array<float>(images, {0, 1, 0}, {3, 1, 1});
  EXPECT_EQ(says(), labels + ": holds 2 labels, " + images + " holds 3 images");
  write_array<float>(images, {0, 1}, {2, 1, 1});
  write_array<std::int64_t>(labels, {0, -1}, {2});
  EXPECT_EQ(says(), labels + ": label 1 is -1, must be 0 to 65535");
  write_array<std::int64_t>(labels, {65536, 0}, {2});
  EXPECT_EQ(says(), labels + ": label 0 is 65536, must be 0 to 65535");
  write_array<float>(labels, {0, 1}, {2});
  EXPECT_EQ(says(), labels + ": holds f32, labels are u8, s8, i32 or i64");
  dir_.write("labels.npy", "not an array");
  EXPECT_EQ(says(), labels + ": the file begins with \"not an\", an npy file with \"\\x93NUMPY\"");
  write_array<std::uint8_t>(labels, {0}, {1});
  write_array<float>(images, {1}, {1, 1, 1});
  EXPECT_TRUE(load_images(dir_.path()));
  EXPECT_EQ(load_image_data(dir_.path()).error().message,
            dir_.path() + ": holds 1 images, two parts need 2 at least");
}

}  // namespace
}  // namespace planck
