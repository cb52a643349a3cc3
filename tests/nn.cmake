# Modules, optimizers and quantized layers.
find_package(GTest REQUIRED)
include(GoogleTest)
add_executable(nn_test nn/modules.test.cpp nn/optim.test.cpp nn/quantize.test.cpp)
target_compile_options(nn_test PRIVATE -O1)
target_link_libraries(nn_test PRIVATE planck::planck planck_build_flags GTest::gtest_main)
gtest_discover_tests(nn_test TEST_PREFIX nn. DISCOVERY_TIMEOUT 60)

# For tests/parity/compare.py.
add_executable(parity_dump parity/dump.cpp)
target_compile_options(parity_dump PRIVATE -O1)
target_include_directories(parity_dump PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(parity_dump PRIVATE planck::planck planck_build_flags)
add_test(NAME nn.parity_dump COMMAND parity_dump ${CMAKE_CURRENT_BINARY_DIR}/parity)
