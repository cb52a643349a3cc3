#include "planck/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>

#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Safetensors, WritesInAnyOrderInPiecesAndReadsBack) {
  TemporaryDirectory dir;
  std::vector<float> w(24);
  std::iota(w.begin(), w.end(), -3.5f);
  const std::vector<std::uint8_t> raw = {1, 2, 3};
  const SafetensorsSpec specs[] = {
      {"raw", "F8_E4M3", {3}}, {"w", "F32", {2, 3, 4}}, {"none", "F32", {0, 7}}};
  auto writer = SafetensorsWriter::create(dir.file("a"), specs, {{"format", "pt"}});
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->write("w", bytes_of(w).first(10)));
  ASSERT_TRUE(writer->write("raw", bytes_of(raw)));
  ASSERT_TRUE(writer->write("w", bytes_of(w).subspan(10)));
  ASSERT_TRUE(writer->commit());
  EXPECT_EQ(dir.contents("a").size(), writer->file_bytes());

  const auto file = SafetensorsFile::open(dir.file("a"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->header().metadata.at("format"), "pt");
  const auto view = file->view(**file->find("w"));
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->dtype, Dtype::f32);
  EXPECT_EQ(view->shape, (Shape{2, 3, 4}));
  EXPECT_EQ(std::memcmp(view->data, w.data(), sizeof(float) * w.size()), 0);
  EXPECT_TRUE(file->view(**file->find("none")));
  const auto opaque = file->view(**file->find("raw"));
  ASSERT_FALSE(opaque);
  EXPECT_EQ(opaque.error().message,
            dir.file("a") + ": tensor \"raw\": has dtype F8_E4M3, which no op computes with");
  EXPECT_EQ(std::memcmp(file->bytes(**file->find("raw")).data(), raw.data(), 3), 0);
  const auto absent = file->find("x");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, dir.file("a") + ": no tensor is called \"x\"; the file has 3");
}

TEST(Safetensors, SameTensorsGiveTheSameBytes) {
  TemporaryDirectory dir;
  const std::vector<float> v = {1, 2};
  const auto write = [&](const char* name, std::vector<SafetensorsSpec> specs) {
    auto writer = SafetensorsWriter::create(dir.file(name), specs, {{"b", "2"}, {"a", "1"}});
    for (const auto& s : specs) ASSERT_TRUE(writer->write(s.name, bytes_of(v)));
    ASSERT_TRUE(writer->commit());
  };
  write("one", {{"x", "F32", {2}}, {"y", "I64", {1}}});
  write("two", {{"y", "I64", {1}}, {"x", "F32", {2}}});
  EXPECT_EQ(dir.contents("one"), dir.contents("two"));
}

TEST(Safetensors, MisalignedTensorsAreCopied) {
  // One byte, then an f32: lawful, and no pointer to float can reach it.
  TemporaryDirectory dir;
  const std::string json = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  std::string contents(8, '\0');
  contents[0] = static_cast<char>(json.size());
  const float values[] = {1.5f, -2.25f};
  contents += json + "B" + std::string(reinterpret_cast<const char*>(values), 8);
  dir.write("m", contents);
  const auto file = SafetensorsFile::open(dir.file("m"));
  ASSERT_TRUE(file) << file.error().message;
  const SafetensorsEntry& f = **file->find("f");
  const auto data_at = 8 + json.size() + 1;
  ASSERT_NE(data_at % 4, 0u);
  const auto view = file->view(f);
  ASSERT_FALSE(view);
  EXPECT_NE(view.error().message.find("lies at byte " + std::to_string(data_at) +
                                      ", F32 needs a multiple of 4"),
            std::string::npos)
      << view.error().message;
  const auto tensor = file->load(Stream::cpu(), f);
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->as<float>()[0], 1.5f);
  EXPECT_EQ(tensor->as<float>()[1], -2.25f);
}

TEST(Safetensors, RanksAboveEightAreReadableAsBytesOnly) {
  TemporaryDirectory dir;
  const SafetensorsSpec specs[] = {{"r", "F32", std::vector<std::int64_t>(9, 1)}};
  auto writer = SafetensorsWriter::create(dir.file("r"), specs, {});
  ASSERT_TRUE(writer->write("r", bytes_of(std::vector<float>{4})));
  ASSERT_TRUE(writer->commit());
  const auto file = SafetensorsFile::open(dir.file("r"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->bytes(file->entries()[0]).size(), 4u);
  const auto view = file->view(file->entries()[0]);
  ASSERT_FALSE(view);
  EXPECT_NE(view.error().message.find("has rank 9, at most 8"), std::string::npos)
      << view.error().message;
}

TEST(Safetensors, PackedTensorsAreStoredAsBytes) {
  const auto spec = SafetensorsSpec::of("q", Dtype::s4, {3, 10});
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->dtype, "U8");
  EXPECT_EQ(spec->shape, (std::vector<std::int64_t>{3, 5}));
  const auto odd = SafetensorsSpec::of("q", Dtype::u4, {3, 5});
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message,
            "tensor \"q\": u4 is packed in pairs, shape [3, 5] has no even last extent");
}

TEST(Safetensors, WriterChecksSizesAndLeavesNothingWithoutCommit) {
  TemporaryDirectory dir;
  const SafetensorsSpec specs[] = {{"x", "F32", {2}}};
  {
    auto writer = SafetensorsWriter::create(dir.file("o"), specs, {});
    ASSERT_TRUE(writer);
    const auto early = writer->commit();
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().message,
              dir.file("o") + ": tensor \"x\": given 0 bytes, F32 of shape [2] has 8");
    ASSERT_TRUE(writer->write("x", bytes_of(std::vector<float>{1})));
    const auto much = writer->write("x", bytes_of(std::vector<float>{1, 2}));
    ASSERT_FALSE(much);
    EXPECT_EQ(much.error().message,
              dir.file("o") + ": tensor \"x\": given 12 bytes, F32 of shape [2] has 8");
    EXPECT_FALSE(writer->write("y", {}));
  }
  EXPECT_TRUE(dir.names().empty());
  const SafetensorsSpec bad[] = {{"x", "F31", {2}}};
  EXPECT_FALSE(SafetensorsWriter::create(dir.file("o"), bad, {}));
  const SafetensorsSpec negative[] = {{"x", "F32", {-2}}};
  EXPECT_FALSE(SafetensorsWriter::create(dir.file("o"), negative, {}));
  EXPECT_TRUE(dir.names().empty());
}

TEST(Safetensors, OpenNamesTheFileAndTheReason) {
  TemporaryDirectory dir;
  dir.write("empty", "");
  dir.write("short", "abc");
  mkfifo(dir.file("pipe").c_str(), 0600);
  const auto says = [&](const std::string& name) {
    return SafetensorsFile::open(dir.file(name)).error().message;
  };
  EXPECT_EQ(says("absent"), dir.file("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(says("empty"),
            dir.file("empty") + ": the file is empty, a safetensors file has 8 bytes at least");
  EXPECT_EQ(says("short"),
            dir.file("short") + ": the file has 3 bytes, a safetensors file has 8 at least");
  EXPECT_EQ(says("pipe"), dir.file("pipe") + ": is a device or a pipe, must be a regular file");
  EXPECT_EQ(SafetensorsFile::open(dir.path()).error().message,
            dir.path() + ": is a directory, must be a regular file");
}

}  // namespace
}  // namespace planck
