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
    std::vector<int> run, refused;
  };
  const Row rows[] = {{"90a-real", {90}, {80, 86, 89, 100, 120}},
                      {"80-virtual", {80, 86, 89, 90, 100, 120}, {75}},
                      {"80-real", {80, 86, 89}, {75, 90, 100}},
                      {"86-real", {86, 89}, {80, 90}},
                      {"86", {86, 89, 90, 120}, {80}},
                      {"100f-real", {100, 103}, {90, 120}},
                      {"103f", {103}, {100, 120}},
                      {"90a-real,86-real", {86, 89, 90}, {80, 100}},
                      {"120a-virtual", {120}, {121, 90}},
                      {"native", {80, 90}, {}},
                      {"", {}, {80, 90}}};
  for (const Row& row : rows) {
    for (const int gpu : row.run) EXPECT_TRUE(has_code_for(row.architectures, gpu)) << gpu;
    for (const int gpu : row.refused)
      EXPECT_FALSE(has_code_for(row.architectures, gpu)) << row.architectures << " " << gpu;
  }
}

}  // namespace
}  // namespace planck::cuda
