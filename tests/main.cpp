// googletest's main, with one flag more: --cpu_target=avx512|avx2|baseline runs the tests as if
// this CPU had no more than that.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "planck/verify/cpu_targets.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--cpu_target=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (!arg.starts_with(kFlag)) {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
    if (auto ok = planck::verify::restrict_cpu_target(arg.substr(kFlag.size())); !ok) {
      // 77: what CTest is told means skipped
      std::printf("skipped: %s\n", ok.error().message.c_str());
      return 77;
    }
  }
  return RUN_ALL_TESTS();
}
