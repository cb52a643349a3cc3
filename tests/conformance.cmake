# What crosses folders: every kernel against its promises, gradients, the core, and the harness that checks them.
# `ctest -L long` also runs the long case list.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(conformance_test
  conformance/allocation_counter.cpp
  conformance/gradients.test.cpp
  conformance/half.test.cpp
  conformance/harness.test.cpp
  conformance/isolated.cpp
  conformance/kernels.test.cpp
  conformance/large.test.cpp
  conformance/odd.test.cpp
  conformance/odd_cases.cpp
  conformance/odd_reference.cpp
  conformance/odd_run.cpp
  conformance/odd_tensors.cpp
  conformance/odd_tensors.test.cpp
  conformance/runtime.test.cpp
  conformance/shapes.test.cpp
  conformance/$<IF:$<BOOL:${PLANCK_WITH_CUDA}>,half_on_device.cu,half_on_device.no_cuda.cpp>)
target_link_libraries(conformance_test PRIVATE planck_verify planck_reference planck::planck planck_build_flags
  GTest::gtest_main)
gtest_discover_tests(conformance_test TEST_PREFIX conformance. TEST_FILTER "-Long.*" DISCOVERY_TIMEOUT 60)
gtest_discover_tests(conformance_test TEST_PREFIX conformance. TEST_FILTER "Long.*" TEST_LIST conformance_long
  PROPERTIES LABELS long DISCOVERY_TIMEOUT 60)

find_package(Python3 COMPONENTS Interpreter)
if(PLANCK_BUILD_TOOLS AND Python3_FOUND)
  add_test(NAME conformance.cli
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/conformance/test_run.py)
  set_tests_properties(conformance.cli PROPERTIES ENVIRONMENT
    "PLANCK=$<TARGET_FILE:planck_cli>;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/cli;PYTHONDONTWRITEBYTECODE=1")
endif()
