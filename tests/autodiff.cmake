# Backends and automatic differentiation: the same tests for every backend.
find_package(GTest REQUIRED)
include(GoogleTest)

add_library(planck_reference STATIC reference/evaluate.cpp reference/index.cpp reference/pool.cpp reference/shape.cpp)
target_include_directories(planck_reference PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(planck_reference PUBLIC planck::planck PRIVATE planck_build_flags)
target_compile_options(planck_reference PRIVATE -O2)  # naive loops, which most tests wait for

# One executable of every test that is generic over the backend.
function(add_autodiff_tests backend)
  string(TOLOWER ${backend} name)
  add_executable(autodiff_${name}_test autodiff/compiled.cpp autodiff/gradcheck.cpp
    autodiff/gradients.test.cpp autodiff/graphs.test.cpp autodiff/attention.test.cpp autodiff/conv.test.cpp autodiff/index.test.cpp
    autodiff/indexing.test.cpp autodiff/pool.test.cpp autodiff/rows.test.cpp autodiff/running_extreme.test.cpp autodiff/segments.test.cpp)
  planck_compile_together(autodiff_${name}_test autodiff/compiled.cpp)
  if(backend STREQUAL "Reference")
    target_compile_definitions(autodiff_${name}_test PRIVATE PLANCK_TESTS_REFERENCE)
  else()
    target_sources(autodiff_${name}_test PRIVATE
      autodiff/families.test.cpp autodiff/quantized.test.cpp autodiff/quantized_shapes.test.cpp autodiff/tensors.test.cpp autodiff/training.test.cpp)
  endif()
  target_compile_definitions(autodiff_${name}_test PRIVATE PLANCK_TESTED_BACKEND=planck::${backend})
  target_link_libraries(autodiff_${name}_test PRIVATE planck_reference planck::planck planck_build_flags
    GTest::gtest_main)
  gtest_discover_tests(autodiff_${name}_test TEST_PREFIX autodiff.${name}. DISCOVERY_TIMEOUT 60)
endfunction()
add_autodiff_tests(Reference)
add_autodiff_tests(Cpu)
if(PLANCK_WITH_CUDA)
  add_autodiff_tests(Cuda)
endif()

# The tape with modules on it: state in segments, failures, scopes, and what it is handed.
add_executable(tape_test tape/borrowed.test.cpp tape/contracts.test.cpp tape/failing_new.cpp tape/failures.test.cpp
  tape/observers.test.cpp tape/replay.test.cpp tape/scopes.test.cpp tape/threads.test.cpp)
find_package(nlohmann_json REQUIRED)
target_link_libraries(tape_test PRIVATE planck::planck planck_build_flags nlohmann_json::nlohmann_json GTest::gtest_main)
planck_precompile(tape_test <gtest/gtest.h> <planck/training.h>)  # and other tests reuse it
gtest_discover_tests(tape_test TEST_PREFIX tape. DISCOVERY_TIMEOUT 60)

# Several threads under the thread sanitizer, in its build alone: cmake --preset tsan. The Reference
# backend has no threads of its own, so what is reported is about graphs, and with these few sources
# everything is instrumented.
if(PLANCK_SANITIZE STREQUAL "thread")
  set(core ${PROJECT_SOURCE_DIR}/planck)
  add_executable(threads_test autodiff/graphs.test.cpp autodiff/threads.test.cpp reference/evaluate.cpp reference/shape.cpp
    ${core}/backend/format.cpp ${core}/backend/primitive.cpp ${core}/backend/side_by_side.cpp ${core}/core/allocator.cpp ${core}/core/cuda/absent.cpp ${core}/core/cuda/architectures.cpp ${core}/core/refuse.cpp
    ${core}/core/scalar.cpp ${core}/core/replay.cpp
    ${core}/core/shape.cpp ${core}/core/stream.cpp ${core}/core/stream/recording.cpp ${core}/core/view.cpp ${core}/ops/matmul/matmul.ops.cpp
    ${core}/ops/shape/indices.cpp ${core}/ops/shape/shape.ops.cpp ${core}/plan/broadcast.cpp)
  target_include_directories(threads_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_compile_definitions(threads_test PRIVATE PLANCK_TESTED_BACKEND=planck::Reference)
  target_link_libraries(threads_test PRIVATE planck_build_flags tl::expected fmt::fmt GTest::gtest_main)
  gtest_discover_tests(threads_test TEST_PREFIX threads. TEST_FILTER -*Million*:*Recipes* DISCOVERY_TIMEOUT 60)
endif()

# What must not compile, and how the compiler says so.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  file(GLOB sources CONFIGURE_DEPENDS compile_fail/*.cpp)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME compile_fail.${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/check.py
      ${source} ${CMAKE_CXX_COMPILER} -std=c++20 -I${PROJECT_SOURCE_DIR}
      -I${PROJECT_BINARY_DIR}/generated)
  endforeach()
endif()

# What a user's file costs to compile. Limits are those of GCC.
if(Python3_FOUND AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PLANCK_SANITIZE)
  add_test(NAME compile_time.user COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/compile_time/measure.py
    ${CMAKE_CXX_COMPILER} -std=c++20 -O3 -DNDEBUG)
  set_tests_properties(compile_time.user PROPERTIES ENVIRONMENT PLANCK_BUILD=${PROJECT_BINARY_DIR})
endif()

# What the tape costs: build/release/tests/tape_bench
add_executable(tape_bench ${PROJECT_SOURCE_DIR}/bench/tape.cpp)
target_link_libraries(tape_bench PRIVATE planck::planck planck_build_flags)
target_compile_options(tape_bench PRIVATE -O3)
add_test(NAME autodiff.tape COMMAND tape_bench)
set_tests_properties(autodiff.tape PROPERTIES RUN_SERIAL ON)  # it holds a time
