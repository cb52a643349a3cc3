# Tensors as people hold them: numbers, indices, creation, memory of others, on every backend here.
find_package(GTest REQUIRED)
include(GoogleTest)

add_executable(tensor_test tensor/creation.test.cpp tensor/einsum.test.cpp tensor/exchange.test.cpp
  tensor/half_gradients.test.cpp tensor/half_quantized.test.cpp tensor/indexing.test.cpp
  tensor/products.test.cpp tensor/scalars.test.cpp)
target_link_libraries(tensor_test PRIVATE planck::planck planck_build_flags GTest::gtest_main)
planck_precompile(tensor_test REUSE_FROM tape_test)
gtest_discover_tests(tensor_test TEST_PREFIX tensor. DISCOVERY_TIMEOUT 60)
