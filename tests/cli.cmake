# The command line, run as its users run it. `ctest -L long` also holds its memory bound on a 1.5 GB checkpoint.
find_package(Python3 COMPONENTS Interpreter)
if(PLANCK_BUILD_TOOLS AND Python3_FOUND)
  foreach(topic quantize compare demo embedding grid_sample refusals memory)
    add_test(NAME cli.${topic}
      COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_${topic}.py)
    set_tests_properties(cli.${topic} PROPERTIES
      ENVIRONMENT
      "PLANCK=$<TARGET_FILE:planck_cli>;PLANCK_SANITIZE=${PLANCK_SANITIZE};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
  set_tests_properties(cli.memory PROPERTIES LABELS long)
  set_tests_properties(cli.demo PROPERTIES COST 1000)  # the longest one starts first
endif()
