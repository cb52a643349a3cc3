# PLANCK_CUDA_ARCHITECTURES: what CUDA kernels are compiled for, as CMake names it: NN-real is the code of one GPU,
# NN-virtual is PTX, which the driver compiles for any GPU from NN on. 90a has the tensor cores of Hopper at full speed.
#
# Unless it is given: the GPUs of this machine. Without one: PTX of 8.0, for every GPU from Ampere on, and Hopper.

function(planck_gpus_here result)
  set(found)
  find_program(PLANCK_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(PLANCK_NVIDIA_SMI)
  if(PLANCK_NVIDIA_SMI)
    execute_process(COMMAND ${PLANCK_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
      foreach(capability IN LISTS capabilities)
        string(REPLACE "." "" number ${capability})
        if(capability VERSION_LESS 8.0)
          message(STATUS "planck: leaves out a GPU of compute capability ${capability}, kernels need 8.0")
        elseif(number EQUAL 90)
          list(APPEND found 90a-real)
        else()
          list(APPEND found ${number}-real)
        endif()
      endforeach()
      list(REMOVE_DUPLICATES found)
    endif()
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

if(NOT PLANCK_CUDA_ARCHITECTURES)
  planck_gpus_here(architectures)
  if(NOT architectures)
    set(architectures 80-virtual 90a-real)
  endif()
  set(PLANCK_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
      "GPU architectures to compile for, as CMake names them; empty: those of this machine" FORCE)
endif()
foreach(architecture IN LISTS PLANCK_CUDA_ARCHITECTURES)
  if(architecture MATCHES "^[1-7][0-9]([a-z]|-|$)")
    message(FATAL_ERROR "PLANCK_CUDA_ARCHITECTURES has ${architecture}, kernels need compute capability 8.0 or newer")
  endif()
endforeach()
