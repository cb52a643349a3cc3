# Workers: as threads of one process, and as processes where there is MPI.
find_package(GTest REQUIRED)
include(GoogleTest)
set(dist ${PROJECT_SOURCE_DIR}/planck/dist)

add_executable(dist_test ${dist}/test/all_reduce.test.cpp ${dist}/test/balance.test.cpp ${dist}/test/backoff.test.cpp ${dist}/test/buckets.test.cpp ${dist}/test/cores.test.cpp
  ${dist}/test/data_parallel.test.cpp ${dist}/test/grains.test.cpp ${dist}/test/meeting.test.cpp
  ${dist}/test/own_backend.test.cpp ${dist}/test/sharded.test.cpp ${dist}/test/staged.test.cpp ${dist}/test/sync_batch_norm.test.cpp
  ${dist}/test/tensor_parallel.test.cpp ${dist}/test/traffic.test.cpp)
target_link_libraries(dist_test PRIVATE planck::dist planck::planck planck_build_flags GTest::gtest_main)
planck_precompile(dist_test REUSE_FROM tape_test)
gtest_discover_tests(dist_test TEST_PREFIX dist. DISCOVERY_TIMEOUT 60)

add_executable(mpi_test ${dist}/test/mpi.test.cpp)
target_link_libraries(mpi_test PRIVATE planck::dist planck::planck planck_build_flags)
if(PLANCK_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
  add_executable(mpi_caller_test ${dist}/test/mpi_caller.test.cpp)
  target_link_libraries(mpi_caller_test PRIVATE planck::dist planck::planck planck_build_flags MPI::MPI_CXX)
endif()

# Skipped, and counted as such, where there is no MPI; sanitizers report MPI's own leaks. `ctest -L long` also waits for
# workers that are slow, and trains the demo to its end.
find_package(Python3 COMPONENTS Interpreter)
if(PLANCK_BUILD_TOOLS AND Python3_FOUND AND NOT PLANCK_SANITIZE)
  foreach(tests IN ITEMS workers failures long)
    set(name dist.${tests})
    add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/dist/test_${tests}.py)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 COST 500 RUN_SERIAL ON)
    set_property(TEST ${name} PROPERTY ENVIRONMENT PYTHONDONTWRITEBYTECODE=1 PLANCK=$<TARGET_FILE:planck_cli>
      MPI_TEST=$<TARGET_FILE:mpi_test> "PLANCK_WITH_MPI=$<$<BOOL:${PLANCK_WITH_MPI}>:1>")
    if(TARGET mpi_caller_test)
      set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT MPI_CALLER_TEST=$<TARGET_FILE:mpi_caller_test>)
    endif()
  endforeach()
  set_tests_properties(dist.long PROPERTIES LABELS long TIMEOUT 3600)
endif()

# Under the thread sanitizer: what is instrumented is all there is (see autodiff.cmake).
if(PLANCK_SANITIZE STREQUAL "thread")
  set(core ${PROJECT_SOURCE_DIR}/planck/core)
  add_executable(workers_test ${dist}/test/all_reduce.test.cpp ${dist}/test/buckets.test.cpp
    ${dist}/test/meeting.test.cpp ${dist}/addition.cpp ${dist}/all_reduce.cpp ${dist}/meeting.cpp ${dist}/transport/communicator.cpp ${dist}/transport/courier.cpp
    ${dist}/grains.cpp ${dist}/buckets.cpp ${dist}/sparse_rows.cpp
    ${dist}/transport/threads.cpp ${core}/allocator.cpp ${core}/cuda/absent.cpp ${core}/cuda/architectures.cpp ${core}/refuse.cpp ${core}/shape.cpp
    ${core}/stream.cpp)
  target_include_directories(workers_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(workers_test PRIVATE planck_build_flags tl::expected fmt::fmt GTest::gtest_main)
  gtest_discover_tests(workers_test TEST_PREFIX threads.workers. DISCOVERY_TIMEOUT 60)
endif()
