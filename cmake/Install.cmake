# find_package(planck) → planck::planck, planck::cpu and, where they were built, CUDA kernels: planck::cuda. With
# COMPONENTS dist: planck::dist.
# Headers: what lies on top of each folder. What lies below (cpu, cuda, host, test) is not for users, nor is planck/loops but
# for the problem that embedding's is made of. .ci/check_includes has the same rule, and .ci/check_install compares.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/planck)
install(TARGETS planck_cpu EXPORT planck-targets)
install(EXPORT planck-targets NAMESPACE planck:: DESTINATION ${package})
if(PLANCK_WITH_CUDA)
  install(TARGETS planck_cuda planck_cuda_kernels EXPORT planck-cuda-targets)
  install(EXPORT planck-cuda-targets NAMESPACE planck:: DESTINATION ${package})
endif()
install(TARGETS planck_dist EXPORT planck-dist-targets)
install(EXPORT planck-dist-targets NAMESPACE planck:: DESTINATION ${package})
install(DIRECTORY planck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "verify" EXCLUDE PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE PATTERN "host" EXCLUDE
        PATTERN "test" EXCLUDE PATTERN "planck/loops" EXCLUDE PATTERN "*.test.h" EXCLUDE PATTERN "*-inl.h" EXCLUDE
        PATTERN "*.impl.h" EXCLUDE PATTERN "kernels.h" EXCLUDE PATTERN "safetensors_json.h" EXCLUDE)
install(FILES planck/loops/table/table.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/planck/loops/table)
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/planck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
configure_package_config_file(cmake/planck-config.cmake.in planck-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(planck-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/planck-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/planck-config-version.cmake
        DESTINATION ${package})
if(TARGET planck_cli)
  install(TARGETS planck_cli)
endif()
