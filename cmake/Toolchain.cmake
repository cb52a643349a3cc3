# Language standards, warnings, numerics flags, sanitizers and the optional CUDA language.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

find_program(PLANCK_CCACHE ccache)
if(PLANCK_CCACHE)
  # ccache takes precompiled headers into account only when told to trust their defines. Told by the compiler what a
  # source includes, it need not preprocess it for that. What one checkout compiled serves another.
  set(anywhere ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${anywhere} CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${PLANCK_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${anywhere} ${PLANCK_CCACHE})
endif()

# PLANCK_CUDA: AUTO asks for nvcc and for a GPU that could run what it makes.
set(PLANCK_WITH_CUDA OFF)
if(NOT PLANCK_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PLANCK_CUDA is ${PLANCK_CUDA}, must be AUTO, ON or OFF")
endif()
file(GLOB gpus /proc/driver/nvidia/gpus/*)
if(PLANCK_CUDA STREQUAL "ON" OR (PLANCK_CUDA STREQUAL "AUTO" AND gpus))
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(PLANCK_NVCC nvcc HINTS ENV CUDA_HOME PATH_SUFFIXES bin PATHS /usr/local/cuda)
    if(PLANCK_NVCC)
      set(CMAKE_CUDA_COMPILER ${PLANCK_NVCC})
    endif()
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    include(cmake/CudaArchitectures.cmake)
    set(CMAKE_CUDA_ARCHITECTURES ${PLANCK_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake 3.25 does not know how to ask nvcc for C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")  # of the host's side, which launches; device code is the same
    set(PLANCK_WITH_CUDA ON)
  elseif(PLANCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PLANCK_CUDA is ON, and there is no nvcc: not on PATH, not in $CUDA_HOME/bin or /usr/local/cuda/bin")
  endif()
endif()
set(for)
if(PLANCK_WITH_CUDA)
  list(JOIN PLANCK_CUDA_ARCHITECTURES ", " for)
  set(for " for ${for}")
endif()
message(STATUS "planck: CUDA kernels ${PLANCK_WITH_CUDA}${for} (PLANCK_CUDA=${PLANCK_CUDA})")

# Numerics: no contraction, no hidden reassociation. The two -fno flags change no value; they let loops vectorize.
add_library(planck_build_flags INTERFACE)
target_compile_options(planck_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-ffp-contract=off;-fno-math-errno;-fno-trapping-math>
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-prec-div=true;-prec-sqrt=true;-ftz=false;--expt-relaxed-constexpr;--compress-mode=size;-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
# GCC looks for garbage from 128 MB on, a twentieth of its time here; half a gigabyte holds most sources whole.
target_compile_options(planck_build_flags INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=524288>")
set(PLANCK_QUICK_COMPILATION $<$<CONFIG:Release>:-O1>)  # of what no one waits for: tests, commands
if(NOT PLANCK_SANITIZE)  # instrumented code makes GCC see what is not there
  target_compile_options(planck_build_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Werror>)
else()
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(PLANCK_QUICK_COMPILATION -O0)  # even -O1 takes twice as long here
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")  # kernels for AVX2 alone, see planck/loops/cpu/targets.h
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-march=haswell;-maes>")
  endif()
  target_compile_definitions(planck_build_flags INTERFACE PLANCK_SANITIZED=1)
  # Targets with the property PLANCK_UNWATCHED are linked with the sanitizers, and not instrumented.
  set(watched $<NOT:$<BOOL:$<TARGET_PROPERTY:PLANCK_UNWATCHED>>>)
  target_compile_options(planck_build_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,${watched}>:-fsanitize=${PLANCK_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(planck_build_flags INTERFACE -fsanitize=${PLANCK_SANITIZE})
endif()

# What is read and compiled more often than it changes: headers once for each target, and many small
# sources as a few. Headers of ours are given as <planck/…>, so that no path of this checkout is in what is compiled.
# planck_precompile(TARGET HEADER…), or planck_precompile(TARGET REUSE_FROM OTHER) of a target with the same flags.
function(planck_precompile target)
  if("${ARGV1}" STREQUAL REUSE_FROM)
    target_precompile_headers(${target} ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
                                           "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()
function(planck_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# -O1 for the sources of a target that arrange work and do little themselves: problems, plans, modules, lists of compiled
# ops, readers of headers. All but those that `kept` matches: loops, and what every op passes through.
function(planck_optimize_less target kept)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "${kept}")
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()
