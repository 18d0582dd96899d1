# libheddle.so: the room `library` behind the C header include/heddle.h, for programs and for python/heddle.
target_include_directories(heddle_library PUBLIC ${CMAKE_SOURCE_DIR}/include)
if(HEDDLE_STATIC)  # Debian's static libraries cannot be a part of a shared one
  return()
endif()
if(NOT "library" MATCHES "${HEDDLE_SANITIZED_ROOMS}")
  return()
endif()
set(exports ${CMAKE_SOURCE_DIR}/src/library/exports.map)
add_library(libheddle SHARED $<TARGET_OBJECTS:heddle_library>)
target_link_libraries(libheddle PRIVATE heddle_library)
target_include_directories(libheddle INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
target_link_options(libheddle PRIVATE -Wl,--version-script=${exports} -Wl,--as-needed -Wl,--gc-sections)
if(NOT HEDDLE_SANITIZE)  # a sanitizer's functions are those of the program
  target_link_options(libheddle PRIVATE -Wl,-z,defs)
endif()
set_target_properties(libheddle PROPERTIES OUTPUT_NAME heddle EXPORT_NAME heddle VERSION 1 SOVERSION 1 LINK_DEPENDS ${exports}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
