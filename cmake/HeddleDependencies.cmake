# What comes from Debian packages. Nothing is downloaded.
option(HEDDLE_STATIC "Programs that need nothing but glibc and one library beside them: to be carried to another machine" OFF)

find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED)  # Asio and Beast: headers only
set(OPENSSL_USE_STATIC_LIBS ${HEDDLE_STATIC})
find_package(OpenSSL REQUIRED)
if(HEDDLE_STATIC)
  find_library(ZLIB_LIBRARY NAMES libz.a REQUIRED)
endif()
find_package(ZLIB REQUIRED)

# heddle_library(target header library...): a Debian library without a CMake package of its own. The first of the library's
# file names that is there is taken.
function(heddle_library target header)
  find_path(${target}_include ${header} REQUIRED)
  find_library(${target}_library NAMES ${ARGN} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${${target}_library} INTERFACE_INCLUDE_DIRECTORIES ${${target}_include})
endfunction()
if(HEDDLE_STATIC)
  heddle_library(pcre2 pcre2.h libpcre2-8.a)
  heddle_library(utf8proc utf8proc.h libutf8proc.a)
  heddle_library(edit histedit.h libedit.a)
  foreach(library bsd tinfo md)  # what libedit.a calls
    find_library(${library}_library NAMES lib${library}.a REQUIRED)
    set_property(TARGET edit APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${${library}_library})
  endforeach()
  set_property(TARGET utf8proc PROPERTY INTERFACE_COMPILE_DEFINITIONS UTF8PROC_STATIC)
  # Debian has no static one: a copy of it goes along, and is looked for beside the program
  heddle_library(prometheus prometheus/text_serializer.h libprometheus-cpp-core.so.1.0)
  add_library(prometheus-cpp::core ALIAS prometheus)
  file(COPY ${prometheus_library} DESTINATION ${CMAKE_BINARY_DIR} FOLLOW_SYMLINK_CHAIN)
  set(CMAKE_BUILD_RPATH "$ORIGIN")
else()
  heddle_library(pcre2 pcre2.h pcre2-8)
  heddle_library(utf8proc utf8proc.h utf8proc)
  heddle_library(edit histedit.h edit)
  find_package(prometheus-cpp REQUIRED COMPONENTS core)
endif()
set_property(TARGET pcre2 PROPERTY INTERFACE_COMPILE_DEFINITIONS PCRE2_CODE_UNIT_WIDTH=8)

# libcurl is opened at run time (src/store/curl.h): only its header is needed
find_path(curl_include curl/curl.h REQUIRED)
add_library(curl_headers INTERFACE)
target_include_directories(curl_headers SYSTEM INTERFACE ${curl_include})
# so is libzmq (src/server/events/zmq.h)
find_path(zmq_include zmq.h REQUIRED)
add_library(zmq_headers INTERFACE)
target_include_directories(zmq_headers SYSTEM INTERFACE ${zmq_include})

if(HEDDLE_STATIC)
  add_link_options(-static-libstdc++ -static-libgcc)
  add_library(heddle_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt.cpp)
  set(HEDDLE_FMT heddle_fmt)
  # Debian has GoogleTest's sources in the package googletest: they compile for any target.
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  foreach(library gtest gtest_main)
    if(NOT TARGET GTest::${library})
      add_library(GTest::${library} ALIAS ${library})
    endif()
  endforeach()
else()
  find_package(fmt REQUIRED)
  set(HEDDLE_FMT fmt::fmt)
  find_package(GTest REQUIRED)
endif()

if(HEDDLE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
