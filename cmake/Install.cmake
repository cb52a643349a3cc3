# find_package(planck) → planck::planck
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS planck EXPORT planck-targets)
install(EXPORT planck-targets NAMESPACE planck:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/planck)
install(DIRECTORY planck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "verify" EXCLUDE PATTERN "*.test.h" EXCLUDE)
configure_package_config_file(cmake/planck-config.cmake.in planck-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/planck)
write_basic_package_version_file(planck-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/planck-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/planck-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/planck)
if(TARGET planck_cli)
  install(TARGETS planck_cli)
endif()
