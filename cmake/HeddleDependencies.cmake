# What comes from Debian packages. Nothing is downloaded.
option(HEDDLE_STATIC "Programs that need nothing but glibc: to be carried to another machine" OFF)

find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

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
