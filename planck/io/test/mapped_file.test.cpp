#include "planck/io/mapped_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

TEST(MappedFileTest, KnowsThePathOfEveryMapping) {
  TemporaryDirectory dir;
  std::vector<MappedFile> files;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file" + std::to_string(i);
    dir.write(name, "contents");
    auto file = MappedFile::open(dir.file(name));
    ASSERT_TRUE(file) << file.error().message;
    files.push_back(std::move(*file));
  }
  for (int i = 0; i < 300; ++i) {
    const auto bytes = files[static_cast<std::size_t>(i)].bytes();
    for (const std::byte* at : {bytes.data(), &bytes.back()}) {
      const char* path = MappedFile::path_of_mapping(at);
      ASSERT_NE(path, nullptr) << i;
      EXPECT_EQ(path, dir.file("file" + std::to_string(i)));
    }
  }
  const std::byte* gone = files[7].bytes().data();
  const std::byte* stays = files[8].bytes().data();
  files[7] = MappedFile();
  files.pop_back();
  EXPECT_EQ(MappedFile::path_of_mapping(gone), nullptr);
  EXPECT_NE(MappedFile::path_of_mapping(stays), nullptr);
  EXPECT_EQ(MappedFile::path_of_mapping(&dir), nullptr);
}

TEST(MappedFileTest, KeepsMappingsOfThreadsApart) {
  TemporaryDirectory dir;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    const std::string path = dir.file("of" + std::to_string(t));
    dir.write("of" + std::to_string(t), "contents");
    threads.emplace_back([path, &wrong] {
      for (int i = 0; i < 2000; ++i) {
        const auto file = MappedFile::open(path);
        const char* found = file ? MappedFile::path_of_mapping(file->bytes().data()) : nullptr;
        if (found == nullptr || found != path) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace planck
