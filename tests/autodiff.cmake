# Backends and automatic differentiation: the same tests for every backend.
find_package(GTest REQUIRED)
include(GoogleTest)

add_library(planck_reference STATIC reference/evaluate.cpp)
target_include_directories(planck_reference PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(planck_reference PUBLIC planck::planck PRIVATE planck_build_flags)

# One executable of every test that is generic over the backend.
function(add_autodiff_tests backend)
  string(TOLOWER ${backend} name)
  add_executable(autodiff_${name}_test autodiff/gradients.test.cpp autodiff/graphs.test.cpp)
  target_compile_definitions(autodiff_${name}_test PRIVATE PLANCK_TESTED_BACKEND=planck::${backend})
  target_compile_options(autodiff_${name}_test PRIVATE -O1)  # thousands of small functions
  target_link_libraries(autodiff_${name}_test PRIVATE planck_reference planck::planck planck_build_flags
    GTest::gtest_main)
  gtest_discover_tests(autodiff_${name}_test TEST_PREFIX autodiff.${name}. DISCOVERY_TIMEOUT 60)
endfunction()
add_autodiff_tests(Reference)
add_autodiff_tests(Cpu)
if(PLANCK_WITH_CUDA)
  add_autodiff_tests(Cuda)
endif()
