# What training reads: unit tests of planck/data.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(data_test
  ${PROJECT_SOURCE_DIR}/planck/data/test/batches.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/data/test/distortion.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/data/test/images.test.cpp)
target_link_libraries(data_test PRIVATE planck::planck planck_build_flags GTest::gtest_main)
gtest_discover_tests(data_test TEST_PREFIX data.)
