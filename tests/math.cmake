# Elementary functions and random numbers. `ctest -L long` tries every f32.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(math_test
  ${PROJECT_SOURCE_DIR}/planck/math/elementary.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/narrow.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/random.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/vectors.test.cpp)
target_link_libraries(math_test PRIVATE planck::planck planck_build_flags GTest::gtest_main hwy::hwy quadmath)
gtest_discover_tests(math_test TEST_PREFIX math. TEST_FILTER "-Long*")
gtest_discover_tests(math_test TEST_PREFIX math. TEST_FILTER "Long*" TEST_LIST math_long PROPERTIES LABELS long)
