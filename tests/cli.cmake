# The command line, run as its users run it. `ctest -L long` also holds its memory bound on large checkpoints.
# Tests that read our files with other people's packages look for them in build/clients (tests/cli/install_clients)
# and are skipped without them.
find_package(Python3 COMPONENTS Interpreter)
if(PLANCK_BUILD_TOOLS AND Python3_FOUND)
  set(cli ${CMAKE_CURRENT_SOURCE_DIR}/cli)
  foreach(topic quantize compare demo hostile outputs refusals usage memory kill sources gguf formats compressed_tensors completion
      ops/embedding ops/gradients ops/grid_sample ops/run ops/shapes)
    get_filename_component(name ${topic} NAME)
    string(REGEX REPLACE "${name}$" "test_${name}.py" script ${topic})
    add_test(NAME cli.${name} COMMAND Python3::Interpreter ${cli}/${script})
    set_tests_properties(cli.${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
      "PLANCK=$<TARGET_FILE:planck_cli>;PLANCK_SANITIZE=${PLANCK_SANITIZE};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${cli}:${PROJECT_SOURCE_DIR}/build/clients")
  endforeach()
  set_tests_properties(cli.memory PROPERTIES LABELS long)
  set_tests_properties(cli.demo cli.hostile PROPERTIES COST 1000)  # the longest ones start first

  # One program for every instruction set: `cpu_targets IN OUT TARGET OPTIONS…` quantizes as if this CPU had no more.
  add_executable(cpu_targets cli/cpu_targets.cpp)
  target_link_libraries(cpu_targets PRIVATE planck_checkpoint planck_build_flags)
  add_test(NAME cli.cpu_targets COMMAND Python3::Interpreter ${cli}/test_cpu_targets.py)
  set_tests_properties(cli.cpu_targets PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
    "PLANCK=$<TARGET_FILE:planck_cli>;CPU_TARGETS=$<TARGET_FILE:cpu_targets>;PYTHONDONTWRITEBYTECODE=1")

  # The page of a training run. By hand: build/release/tests/report_sample full > page.html
  add_executable(report_sample cli/report_sample.cpp)
  target_link_libraries(report_sample PRIVATE planck_print)
  add_test(NAME cli.report COMMAND Python3::Interpreter ${cli}/test_report.py)
  set_tests_properties(cli.report PROPERTIES
    ENVIRONMENT "REPORT_SAMPLE=$<TARGET_FILE:report_sample>;PYTHONDONTWRITEBYTECODE=1")
endif()
