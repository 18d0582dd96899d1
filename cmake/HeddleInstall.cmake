# cmake --install: the program, its manual pages and completions, the service, the documents; the library with its header and
# what finds it. scripts/package starts from it.
include(GNUInstallDirs)
if(HEDDLE_SANITIZE)
  return()
endif()

# The pages and completions are written by the program that was built; one for another machine is run by an emulator, and
# not for every build.
set(written ${CMAKE_BINARY_DIR}/written)
if(CMAKE_CROSSCOMPILING)
  set(always "")
else()
  set(always ALL)
endif()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_custom_command(OUTPUT ${written}/done
    COMMAND ${CMAKE_COMMAND} -E echo "to write manual pages, a program for ${CMAKE_SYSTEM_PROCESSOR} needs qemu-user-static: install it and configure again"
    COMMAND ${CMAKE_COMMAND} -E false)
else()
  add_custom_command(OUTPUT ${written}/done
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${written}
    COMMAND heddle manual ${written}/man
    COMMAND heddle completion bash > ${written}/heddle.bash
    COMMAND heddle completion zsh > ${written}/heddle.zsh
    COMMAND heddle completion fish > ${written}/heddle.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${written}/done
    DEPENDS heddle)
endif()
add_custom_target(heddle_written ${always} DEPENDS ${written}/done)

install(TARGETS heddle)
install(DIRECTORY ${written}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${written}/heddle.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME heddle)
install(FILES ${written}/heddle.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN performance-log.md EXCLUDE)
# zsh of Debian looks for packages' functions in another folder than for those of /usr/local; systemd wants the program's
# place: both depend on the prefix, which is known only when it is installed.
install(CODE "
  set(BINDIR \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
  configure_file(${CMAKE_SOURCE_DIR}/packaging/heddle.service.in ${written}/heddle.service @ONLY)
  if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
    set(zsh_folder vendor-completions)
  else()
    set(zsh_folder site-functions)
  endif()
  file(INSTALL ${written}/heddle.service DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
  file(INSTALL ${written}/heddle.zsh DESTINATION \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${zsh_folder} RENAME _heddle)
")

if(NOT TARGET libheddle)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(TARGETS libheddle EXPORT heddle COMPONENT library)
install(EXPORT heddle FILE heddleConfig.cmake NAMESPACE heddle:: DESTINATION ${package} COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/heddleConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/heddleConfigVersion.cmake DESTINATION ${package} COMPONENT library)
install(FILES include/heddle.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
configure_file(packaging/heddle.pc.in ${CMAKE_BINARY_DIR}/heddle.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/heddle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
# Debian's Python looks for packages in one folder of /usr, and for others where PYTHONPATH says.
install(CODE "
  if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
    set(python_folder lib/python3/dist-packages)
  else()
    set(python_folder ${CMAKE_INSTALL_DATADIR}/heddle/python)
  endif()
  file(INSTALL ${CMAKE_SOURCE_DIR}/python/heddle DESTINATION \${CMAKE_INSTALL_PREFIX}/\${python_folder}
    PATTERN __pycache__ EXCLUDE)
" COMPONENT library)
