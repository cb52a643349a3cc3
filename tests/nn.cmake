# Modules, optimizers and quantized layers.
find_package(GTest REQUIRED)
include(GoogleTest)
add_executable(nn_test
  nn/attention.test.cpp
  nn/conv.test.cpp
  nn/dtypes.test.cpp
  nn/losses.test.cpp
  nn/modules.test.cpp
  nn/optim.test.cpp
  nn/parts.test.cpp
  nn/quantize.test.cpp
  nn/quantized_state.test.cpp
  nn/rows.test.cpp
  nn/slots.test.cpp
  nn/state.test.cpp
  nn/steps.test.cpp
  nn/stored.test.cpp
  parity/modules.test.cpp
  parity/parity.test.cpp)
set_source_files_properties(parity/modules.test.cpp parity/parity.test.cpp PROPERTIES
  COMPILE_DEFINITIONS PLANCK_PARITY_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/parity")
target_link_libraries(nn_test PRIVATE planck::planck planck_build_flags GTest::gtest_main)
planck_precompile(nn_test REUSE_FROM tape_test)
gtest_discover_tests(nn_test TEST_PREFIX nn. DISCOVERY_TIMEOUT 60)

# For tests/parity/compare.py.
add_executable(parity_dump parity/dump.cpp)
target_include_directories(parity_dump PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(parity_dump PRIVATE planck::planck planck_build_flags)
add_test(NAME nn.parity_dump COMMAND parity_dump ${CMAKE_CURRENT_BINARY_DIR}/parity)

# What parity.test.cpp compares with, computed again where there is python3-torch.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME nn.parity_fixtures
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/parity/fixtures.py --check)
  set_tests_properties(nn.parity_fixtures PROPERTIES SKIP_RETURN_CODE 77)
endif()

# Converted models in ONNX Runtime; skipped without it (tests/cli/install_clients).
if(Python3_FOUND)
  add_executable(onnx_sample nn/onnx_sample.cpp)
  target_include_directories(onnx_sample PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(onnx_sample PRIVATE planck::planck planck_build_flags)
  add_test(NAME nn.onnx COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_onnx.py)
  set_tests_properties(nn.onnx PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
    "ONNX_SAMPLE=$<TARGET_FILE:onnx_sample>;PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${PROJECT_SOURCE_DIR}/build/clients")
endif()

# Files of `planck quantize`, run by a model.
if(PLANCK_BUILD_TOOLS AND Python3_FOUND)
  add_executable(stored_sample nn/stored_sample.cpp)
  target_link_libraries(stored_sample PRIVATE planck::planck planck_build_flags)
  add_test(NAME nn.stored COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_stored.py)
  set_tests_properties(nn.stored PROPERTIES ENVIRONMENT
    "PLANCK=$<TARGET_FILE:planck_cli>;STORED_SAMPLE=$<TARGET_FILE:stored_sample>;PYTHONDONTWRITEBYTECODE=1")
endif()

add_executable(gpt_test nn/gpt.test.cpp)
target_include_directories(gpt_test PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(gpt_test PRIVATE planck::dist planck::planck planck_build_flags GTest::gtest_main)
planck_precompile(gpt_test REUSE_FROM tape_test)
gtest_discover_tests(gpt_test TEST_PREFIX nn. DISCOVERY_TIMEOUT 60)

# For tests/parity/gpt_losses.py.
add_executable(gpt_steps EXCLUDE_FROM_ALL parity/gpt_steps.cpp)
target_include_directories(gpt_steps PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(gpt_steps PRIVATE planck::dist planck::planck planck_build_flags)
target_compile_options(gpt_steps PRIVATE -O3)

add_executable(optim_bench EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/optim.cpp)
target_link_libraries(optim_bench PRIVATE planck::planck planck_build_flags)
target_compile_options(optim_bench PRIVATE -O3)
