#include "planck/io/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "planck/io/test/temporary_directory.test.h"

namespace planck {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class OutputFileTest : public testing::TestWithParam<OutputFile::Aside> {
 protected:
  TemporaryDirectory dir_;
  std::string path_ = dir_.file("out");
};

TEST_P(OutputFileTest, AppearsAtCommitAndNotBefore) {
  auto out = OutputFile::create(path_, GetParam());
  ASSERT_TRUE(out) << out.error().message;
  ASSERT_TRUE(out->write_at(2, bytes_of("cd")));
  ASSERT_TRUE(out->write_at(0, bytes_of("ab")));
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(out->commit());
  EXPECT_EQ(dir_.contents("out"), "abcd");
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"out"});
  EXPECT_FALSE(out->commit());
  EXPECT_FALSE(out->write_at(0, bytes_of("x")));
}

TEST_P(OutputFileTest, LeavesTheOldFileWhenAbandoned) {
  dir_.write("out", "old");
  {
    auto out = OutputFile::create(path_, GetParam());
    ASSERT_TRUE(out);
    ASSERT_TRUE(out->write_at(0, bytes_of("new contents")));
    auto moved = std::move(*out);
  }
  EXPECT_EQ(dir_.contents("out"), "old");
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"out"});
}

TEST_P(OutputFileTest, ReplacesTheFileBehindALink) {
  dir_.write("real", "old");
  fs::create_symlink("real", path_);
  auto out = OutputFile::create(path_, GetParam());
  ASSERT_TRUE(out);
  ASSERT_TRUE(out->write_at(0, bytes_of("new")));
  ASSERT_TRUE(out->commit());
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(dir_.contents("real"), "new");
}

TEST_P(OutputFileTest, HonoursTheUmask) {
  const mode_t before = umask(027);
  auto out = OutputFile::create(path_, GetParam());
  ASSERT_TRUE(out && out->commit());
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_P(OutputFileTest, ReportsALimitAndLeavesNothing) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto out = OutputFile::create(path_, GetParam());
    ASSERT_TRUE(out);
    const auto written = out->write_at(0, bytes_of(std::string(10000, 'x')));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::io);
    EXPECT_EQ(written.error().message, path_ + ": cannot write: File too large");
  }
  setrlimit(RLIMIT_FSIZE, &old);
  (void)std::signal(SIGXFSZ, before);
  EXPECT_TRUE(dir_.names().empty());
}

TEST_P(OutputFileTest, RefusesWhatItCannotReplace) {
  const auto says = [](const std::string& path) {
    const auto out = OutputFile::create(path, GetParam());
    return out ? "" : out.error().message;
  };
  EXPECT_EQ(says(dir_.path()),
            dir_.path() + ": is a directory, only a regular file can be replaced");
  EXPECT_EQ(says("/dev/null"),
            "/dev/null: is a device or a pipe, only a regular file can be replaced");
  EXPECT_EQ(says(dir_.file("absent/out")),
            dir_.file("absent/out") + ": cannot create: No such file or directory");
  EXPECT_EQ(says(""), ": names no file");
  EXPECT_TRUE(dir_.names().empty());
}

TEST_P(OutputFileTest, KeepsTheModeOfWhatItReplaces) {
  dir_.write("out", "a secret");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  auto out = OutputFile::create(path_, GetParam());
  ASSERT_TRUE(out && out->commit());
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_P(OutputFileTest, RefusesLinksThatLeadNowhere) {
  fs::create_symlink("absent", dir_.file("dangling"));
  fs::create_symlink("circle", dir_.file("circle"));
  for (const char* name : {"dangling", "circle"}) {
    EXPECT_FALSE(OutputFile::create(dir_.file(name), GetParam()));
    EXPECT_TRUE(fs::is_symlink(dir_.file(name)));
  }
}

TEST_P(OutputFileTest, SweepsWhatNobodyHolds) {
  dir_.write(".out.0123456789abcdef.partial", "of a process that was killed");
  auto one = OutputFile::create(path_, OutputFile::Aside::named);
  auto two = OutputFile::create(path_, GetParam());
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(one->write_at(0, bytes_of("one")) && two->write_at(0, bytes_of("two")));
  const std::size_t before = OutputFile::committed();
  ASSERT_TRUE(one->commit() && two->commit());
  EXPECT_EQ(OutputFile::committed(), before + 2);
  EXPECT_EQ(dir_.contents("out"), "two");
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"out"});
}

INSTANTIATE_TEST_SUITE_P(Asides, OutputFileTest,
                         testing::Values(OutputFile::Aside::nameless_where_possible,
                                         OutputFile::Aside::named),
                         [](const auto& p) {
                           return p.param == OutputFile::Aside::named ? "named" : "nameless";
                         });

}  // namespace
}  // namespace planck
