# What crosses folders: every kernel against its promises, gradients, the core, and the harness that checks them.
# `ctest -L long` also runs the long case list.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(conformance_test
  conformance/allocation_counter.cpp
  conformance/gradients.test.cpp
  conformance/half.test.cpp
  conformance/harness.test.cpp
  conformance/kernels.test.cpp
  conformance/runtime.test.cpp
  conformance/shapes.test.cpp
  conformance/$<IF:$<BOOL:${PLANCK_WITH_CUDA}>,half_on_device.cu,half_on_device.no_cuda.cpp>)
target_link_libraries(conformance_test PRIVATE planck_verify planck::planck planck_build_flags GTest::gtest_main)
gtest_discover_tests(conformance_test TEST_PREFIX conformance. TEST_FILTER "-Long.*" DISCOVERY_TIMEOUT 60)
gtest_discover_tests(conformance_test TEST_PREFIX conformance. TEST_FILTER "Long.*" TEST_LIST conformance_long
  PROPERTIES LABELS long DISCOVERY_TIMEOUT 60)
