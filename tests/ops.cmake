# Each family's own tests: values against a naive reference, worked examples.
find_package(GTest REQUIRED)
include(GoogleTest)

get_property(tests GLOBAL PROPERTY PLANCK_OPS_TESTS)
add_executable(ops_test main.cpp ${PROJECT_SOURCE_DIR}/planck/core/test/architectures.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/core/test/target.test.cpp ${tests})
target_link_libraries(ops_test PRIVATE planck_verify planck::planck planck_build_flags GTest::gtest)
# Naive references: sanitizers watch the library that is compared with them.
set_target_properties(ops_test PROPERTIES PLANCK_UNWATCHED ON)
target_compile_options(ops_test PRIVATE -O1)
planck_precompile(ops_test <gtest/gtest.h> <planck/ops/ops.h>)
gtest_discover_tests(ops_test TEST_PREFIX ops. TEST_FILTER "-Long.*")
gtest_discover_tests(ops_test TEST_PREFIX ops. TEST_FILTER "Long.*" TEST_LIST ops_long PROPERTIES LABELS long)
if(NOT PLANCK_SANITIZE)  # the lesser instruction sets, which this machine would not choose
  foreach(target avx2 baseline)
    add_test(NAME ops.on_${target} COMMAND ops_test --cpu_target=${target} --gtest_filter=-Long*)
    set_tests_properties(ops.on_${target} PROPERTIES SKIP_RETURN_CODE 77 COST 900)
  endforeach()
endif()
if(PLANCK_WITH_CUDA)
  get_property(tests GLOBAL PROPERTY PLANCK_OPS_CUDA_TESTS)
  add_executable(ops_cuda_test ${tests})
  target_link_libraries(ops_cuda_test PRIVATE planck_verify planck::planck planck_build_flags
    GTest::gtest_main)
  target_compile_options(ops_cuda_test PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PLANCK_QUICK_COMPILATION}>)
  gtest_discover_tests(ops_cuda_test TEST_PREFIX ops.)
endif()
