# File formats: unit tests of planck/io and planck/math/philox.h.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(io_test
  ${PROJECT_SOURCE_DIR}/planck/io/test/idx.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/mapped_file.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/npy.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/output_file.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/safetensors.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/safetensors_header.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/io/test/sha256.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/philox.test.cpp)
target_link_libraries(io_test PRIVATE planck::planck planck_build_flags fmt::fmt GTest::gtest_main)
gtest_discover_tests(io_test TEST_PREFIX io.)
