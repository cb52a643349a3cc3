# planck_family(NAME
#   SOURCES …         host code: problem, plan, ops, cpu/…, and what builds without CUDA know of cuda/…
#   CUDA …            device code
#   CUDA_INSTANCES …  "HEADER ARGUMENT…": one generated source per ARGUMENT, which includes HEADER and
#                     says PLANCK_INSTANTIATE(ARGUMENT), so that large templates compile side by side
#   CASES …           test/NAME.cases.cpp and what it needs; makes the family known to planck verify
#   BENCH …           test/NAME.bench.cpp; makes it known to planck bench
#   TESTS …           host tests
#   CUDA_TESTS …)     device tests
#
# All that a family tells the build, in the CMakeLists.txt of its folder. planck/ops/CMakeLists.txt
# lists the families; the registries of ops, cases and benchmarks follow from that list. NAME.list.h
# says which ops on tensors the library has compiled (planck/autodiff/compiled.h).

define_property(GLOBAL PROPERTY PLANCK_FAMILIES BRIEF_DOCS "All families")
define_property(GLOBAL PROPERTY PLANCK_OP_FAMILIES BRIEF_DOCS "Families with ops, in the order of planck ops")
define_property(GLOBAL PROPERTY PLANCK_CASE_SOURCES BRIEF_DOCS "Cases and benchmarks, of planck_verify")
define_property(GLOBAL PROPERTY PLANCK_OPS_TESTS BRIEF_DOCS "Sources of ops_test")
define_property(GLOBAL PROPERTY PLANCK_OPS_CUDA_TESTS BRIEF_DOCS "Sources of ops_cuda_test")

# Sources of the calling folder, as absolute paths, added to a list that other folders read.
function(planck_append property)
  foreach(source IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY ${property} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
endfunction()

# "HEADER ARGUMENT…", for planck_cuda_kernels.
function(planck_cuda_instances)
  if(NOT PLANCK_WITH_CUDA)
    return()
  endif()
  foreach(instances IN LISTS ARGN)
    separate_arguments(arguments UNIX_COMMAND "${instances}")
    list(POP_FRONT arguments header)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    get_filename_component(name ${header} NAME_WE)
    foreach(argument IN LISTS arguments)
      string(MAKE_C_IDENTIFIER ${argument} suffix)
      set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.${suffix}.cu)
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${path}\"\n\nPLANCK_INSTANTIATE(${argument})\n")
      target_sources(planck_cuda_kernels PRIVATE ${source})
    endforeach()
  endforeach()
endfunction()

function(planck_family name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;CUDA;CUDA_INSTANCES;CASES;BENCH;TESTS;CUDA_TESTS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "planck_family(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  target_sources(planck_cpu PRIVATE ${arg_SOURCES})
  if(PLANCK_WITH_CUDA)
    target_sources(planck_cuda_kernels PRIVATE ${arg_CUDA})
    planck_cuda_instances(${arg_CUDA_INSTANCES})
  endif()
  planck_append(PLANCK_CASE_SOURCES ${arg_CASES} ${arg_BENCH})
  planck_append(PLANCK_OPS_TESTS ${arg_TESTS})
  planck_append(PLANCK_OPS_CUDA_TESTS ${arg_CUDA_TESTS})
  set_property(GLOBAL APPEND PROPERTY PLANCK_FAMILIES ${name})
  if(arg_CASES)
    set_property(GLOBAL APPEND PROPERTY PLANCK_OP_FAMILIES ${name})
  endif()
endfunction()

# The ops on tensors of the families given, as one source.
function(planck_compile_ops)
  list(GET ARGN 0 first)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${first}.compiled.cpp)
  set(includes ${ARGN})
  list(TRANSFORM includes REPLACE "(.+)" "#include \"planck/ops/\\1/\\1.list.h\"\n")
  list(JOIN includes "" includes)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Made by cmake/Family.cmake.
#include \"planck/planck.h\"

#define PLANCK_OP(...) PLANCK_COMPILE_OP(template, __VA_ARGS__)
#define PLANCK_CREATION(...) template struct Planned<__VA_ARGS__>

namespace planck {
${includes}}  // namespace planck
")
  target_sources(planck_cpu PRIVATE ${source})
endfunction()

# Headers in the build folder's generated/planck/ops:
#   families.inc            PLANCK_FAMILIES(X) says X(name) for each family with plans
#   families.{ops,list,grad}.h   include the header of that kind of every family; shipped
function(planck_write_families)
  get_property(families GLOBAL PROPERTY PLANCK_FAMILIES)
  set(rest ${families})
  while(rest)  # four at a time: each source reads planck.h once
    list(SUBLIST rest 0 4 some)
    planck_compile_ops(${some})
    list(REMOVE_ITEM rest ${some})
  endwhile()
  foreach(kind ops list grad)
    set(includes ${families})
    list(TRANSFORM includes REPLACE "(.+)" "#include \"planck/ops/\\1/\\1.${kind}.h\"\n")
    list(JOIN includes "" includes)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/planck/ops/families.${kind}.h
         CONTENT "// Made by cmake/Family.cmake.\n${includes}")
  endforeach()
  get_property(families GLOBAL PROPERTY PLANCK_OP_FAMILIES)
  list(TRANSFORM families REPLACE "(.+)" "X(\\1)")
  list(JOIN families " " families)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/planck/ops/families.inc
       CONTENT "// Made by cmake/Family.cmake.\n#define PLANCK_FAMILIES(X) ${families}\n")
endfunction()
