# Training steps as one object, and what they are recorded with.
find_package(GTest REQUIRED)
include(GoogleTest)
add_executable(train_test train/draws.test.cpp train/grains.test.cpp train/memory.test.cpp train/quantized_step.test.cpp
  train/side_by_side.test.cpp train/step.test.cpp train/step_on_cuda.test.cpp)
target_include_directories(train_test PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(train_test PRIVATE planck::dist planck::planck planck_build_flags GTest::gtest_main)
planck_precompile(train_test REUSE_FROM tape_test)
gtest_discover_tests(train_test TEST_PREFIX train. DISCOVERY_TIMEOUT 60)
