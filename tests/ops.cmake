# Each family's own tests: values against a naive reference, worked examples.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(ops_test
  main.cpp
  ${PROJECT_SOURCE_DIR}/planck/core/cpu_target.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/conv/conv.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/elementwise/elementwise.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/elementwise/vectors.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/embedding/bucket_rows.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/embedding/embedding.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/embedding/embedding_bag.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/affine_grid.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/cell_lists.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/grid_sample.examples.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/grid_sample.large.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/grid_sample.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/matmul/matmul.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/pool/pool.examples.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/pool/pool.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.dynamic.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.exact.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.packed.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/reduce/reduce.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/reduce/running_extreme.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/reduce/stats.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/index/index.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/softmax/plans.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/softmax/softmax.test.cpp
  ${PROJECT_SOURCE_DIR}/planck/ops/sort/sort.test.cpp)
target_link_libraries(ops_test PRIVATE planck_verify planck::planck planck_build_flags GTest::gtest)
gtest_discover_tests(ops_test TEST_PREFIX ops. TEST_FILTER "-Long.*")
gtest_discover_tests(ops_test TEST_PREFIX ops. TEST_FILTER "Long.*" TEST_LIST ops_long PROPERTIES LABELS long)
if(NOT PLANCK_SANITIZE)  # the lesser instruction sets, which this machine would not choose
  foreach(target avx2 baseline)
    add_test(NAME ops.on_${target} COMMAND ops_test --cpu_target=${target} --gtest_filter=-Long*)
    set_tests_properties(ops.on_${target} PROPERTIES SKIP_RETURN_CODE 77 COST 900)
  endforeach()
endif()
if(PLANCK_WITH_CUDA)
  add_executable(ops_cuda_test
    ${PROJECT_SOURCE_DIR}/planck/ops/elementwise/elementwise.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/embedding/embedding.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/grid_sample/grid_sample.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/index/index.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/matmul/matmul.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/quantize/quantize.math.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/reduce/reduce.cuda.test.cu
    ${PROJECT_SOURCE_DIR}/planck/ops/softmax/rows.cuda.test.cu)
  target_link_libraries(ops_cuda_test PRIVATE planck_verify planck::planck planck_build_flags
    GTest::gtest_main)
  gtest_discover_tests(ops_cuda_test TEST_PREFIX ops.)
endif()
