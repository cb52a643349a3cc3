# The page of a training run. By hand: build/release/tests/report_sample full > page.html
find_package(Python3 COMPONENTS Interpreter)
set(tool ${PROJECT_SOURCE_DIR}/tools/planck)
add_executable(report_sample cli/report_sample.cpp ${tool}/report/confusion_chart.cpp ${tool}/report/report.cpp
  ${tool}/report/report_charts.cpp ${tool}/report/report_text.cpp ${tool}/print/table.cpp ${tool}/print/console.cpp)
target_link_libraries(report_sample PRIVATE planck::planck planck_build_flags fmt::fmt)
if(Python3_FOUND)
  add_test(NAME cli.report COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_report.py)
  set_tests_properties(cli.report PROPERTIES
    ENVIRONMENT "REPORT_SAMPLE=$<TARGET_FILE:report_sample>;PYTHONDONTWRITEBYTECODE=1")
endif()
