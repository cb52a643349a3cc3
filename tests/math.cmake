# Elementary functions, products and random numbers. `ctest -L long` tries every f32.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(math_test
  main.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/elementary.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/exact_product.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/exp_terms.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/narrow.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/random.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/residues.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/tensor_core.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/math/test/vectors.test.cpp)
target_link_libraries(math_test PRIVATE planck_verify planck::planck planck_build_flags GTest::gtest hwy::hwy quadmath)
target_compile_options(math_test PRIVATE -O2)  # loops over many numbers
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # quadmath.h comes with GCC
  execute_process(COMMAND g++ -print-file-name=include OUTPUT_VARIABLE gcc_headers OUTPUT_STRIP_TRAILING_WHITESPACE)
  target_compile_options(math_test PRIVATE -idirafter ${gcc_headers})
endif()
gtest_discover_tests(math_test TEST_PREFIX math. TEST_FILTER "-Long*")
gtest_discover_tests(math_test TEST_PREFIX math. TEST_FILTER "Long*" TEST_LIST math_long PROPERTIES LABELS long)
if(NOT PLANCK_SANITIZE)
  add_test(NAME math.on_avx2 COMMAND math_test --cpu_target=avx2 --gtest_filter=Vectors*)
  set_tests_properties(math.on_avx2 PROPERTIES SKIP_RETURN_CODE 77)
endif()
