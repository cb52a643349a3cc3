# Each family's own tests: values against a naive reference, worked examples.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(ops_test ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.test.cpp)
target_link_libraries(ops_test PRIVATE planck_verify planck::planck planck_build_flags GTest::gtest_main)
gtest_discover_tests(ops_test TEST_PREFIX ops.)
