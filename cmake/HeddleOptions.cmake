# How everything here is compiled: warnings, sanitizers, reproducible paths. Carried by the target heddle_options.
option(HEDDLE_WERROR "Warnings in heddle's own code are errors" ON)
option(HEDDLE_BENCHMARKS "Build the programs under bench/" ON)
set(HEDDLE_TEST_PARTS 0 CACHE STRING "Each test program as this number of ctests; 0: a ctest for each test")
option(HEDDLE_FUZZ "tests/fuzz as libFuzzer programs; needs clang" OFF)
set(HEDDLE_TOGETHER 0 CACHE STRING "As many files of a room go to the compiler at a time: 30 take a fourth of the time; 0: one by one")
set(HEDDLE_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")
set(HEDDLE_SANITIZED_ROOMS "." CACHE STRING "The rooms that have sanitizers and whose tests are built, as a regular expression; without sanitizers all")
set(HEDDLE_UNSANITIZED_FROM "" CACHE PATH
  "With sanitizers: the build of the preset `release`, which has what is compiled without them; empty: it is compiled again")

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEDDLE_CCACHE})
endif()

add_library(heddle_options INTERFACE)
target_include_directories(heddle_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_compile_options(heddle_options INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Wimplicit-fallthrough
  # a file's own constant is nothing to the next file, with which it is compiled together
  $<$<NOT:$<BOOL:${HEDDLE_TOGETHER}>>:-Wshadow>
  $<$<AND:$<BOOL:${HEDDLE_TOGETHER}>,$<CXX_COMPILER_ID:GNU>>:-Wshadow=local>
  $<$<AND:$<BOOL:${HEDDLE_TOGETHER}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>  # nor is it a header
  $<$<CXX_COMPILER_ID:Clang>:-Wcomma>  # a statement is one expression
  -Wno-missing-field-initializers  # a field not named in {.field = value} has its default: that is why it is not named
  # g++ 12 on x86-64 sees an overlap in `"text" + std::string` and an overflow inside fmt that are not there
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<BOOL:${HEDDLE_WERROR}>:-Werror>
  # __FILE__ and __builtin_FILE() name files as they are named in the repository
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  # a * b + c is two roundings unless fma() is written: the interpreter must agree with the device bit for bit
  -ffp-contract=off)
find_package(Threads REQUIRED)
target_link_libraries(heddle_options INTERFACE Threads::Threads)

if(HEDDLE_SANITIZE)
  # for everything in the tree, GoogleTest included where it is built from source
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
  # At the end of a process, the runtime of clang 14 looks for leaks for three seconds on AArch64: it goes through all 2^28
  # regions that memory could be in. That of clang 16 takes milliseconds, and is the same to the compiler.
  set(runtime /usr/lib/llvm-16/lib/clang/16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15 AND EXISTS ${runtime}/lib/linux)
    add_link_options(-resource-dir=${runtime})
  endif()
  if(HEDDLE_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
  if(HEDDLE_SANITIZE MATCHES "thread")
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)  # fences are what this sanitizer does not understand
  endif()
endif()
