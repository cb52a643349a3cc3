#include "planck/core/cuda/architectures.h"

#include <gtest/gtest.h>

namespace planck::cuda {
namespace {

TEST(Architectures, AreListed) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(each_architecture("80-virtual,90a-real"), (Names{"80-virtual", "90a-real"}));
  EXPECT_EQ(each_architecture("86"), Names{"86"});
  EXPECT_EQ(each_architecture(""), Names{});
}

TEST(Architectures, HaveCodeForSomeGpus) {
  struct Row {
    std::string_view architectures;
    int gpu, code;
  };
  const Row rows[] = {{"90a-real", 90, 90},
                      {"90a-real", 80, 0},
                      {"90a-real", 100, 0},
                      {"80-virtual", 75, 0},
                      {"80-virtual", 80, 80},
                      {"80-virtual", 86, 80},
                      {"80-virtual", 90, 80},
                      {"80-virtual", 120, 80},
                      {"80-real", 86, 80},
                      {"80-real", 90, 0},
                      {"86-real", 80, 0},
                      {"86", 89, 86},
                      {"86", 120, 86},
                      {"86", 80, 0},
                      {"100f-real", 103, 100},
                      {"100f-real", 90, 0},
                      {"100f-real", 120, 0},
                      {"103f", 100, 0},
                      {"120a-virtual", 120, 120},
                      {"120a-virtual", 121, 0},
                      {"native", 86, 86},
                      {"80-virtual,90a-real", 90, 90},  // code before PTX
                      {"80-virtual,90a-real", 89, 80},
                      {"80-virtual,90a-real", 100, 80},
                      {"80-real,90-virtual", 86, 80},
                      {"80-real,90-virtual", 90, 90},
                      {"80-real,86-real", 89, 86},
                      {"80-real,90-virtual", 120, 90},
                      {"86-real,80-virtual", 80, 80},
                      {"", 90, 0}};
  for (const Row& row : rows)
    EXPECT_EQ(code_for(row.architectures, row.gpu), row.code)
        << row.architectures << " " << row.gpu;
}

}  // namespace
}  // namespace planck::cuda
