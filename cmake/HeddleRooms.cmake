# Rooms, tests and benchmarks are found by folder: a new .cpp needs no line in any CMakeLists.txt.
# Files go to the compiler together: most of its time is spent on headers and templates that they share. So what stands in
# unnamed namespaces of a room has names of its own: scripts/check_names sees to it.
# Headers of others that most of them include are compiled once for all targets with the same options: by g++, for clang
# wants more options to be the same. ccache cannot keep what is compiled with them.
function(heddle_together target)
  if(NOT HEDDLE_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HEDDLE_TOGETHER})
  get_target_property(type ${target} TYPE)
  if(CMAKE_CXX_COMPILER_LAUNCHER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR type STREQUAL MODULE_LIBRARY)
    return()
  endif()
  set(headers algorithm array atomic chrono condition_variable filesystem fstream functional map memory mutex optional random
    set span sstream string thread unordered_map variant vector fmt/format.h nlohmann/json.hpp)
  if(target MATCHES "_tests$")
    list(APPEND headers gtest/gtest.h)
  endif()
  list(TRANSFORM headers REPLACE ".+" "<\\0>")
  target_compile_options(${target} PRIVATE -Wno-error=invalid-pch)
  # g++ 12 forgets which of them are a system's, and warns of what it sees in their inlined functions
  foreach(warning array-bounds dangling-pointer free-nonheap-object maybe-uninitialized nonnull stringop-overread use-after-free)
    target_compile_options(${target} PRIVATE -Wno-error=${warning})
  endforeach()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(shared ${target} POSITION_INDEPENDENT_CODE)
  # Libraries that define macros in all files that use them: g++ wants the same macros for the same headers.
  get_target_property(libraries ${target} LINK_LIBRARIES)
  list(FILTER libraries INCLUDE REGEX "^GTest::")
  string(MD5 key "${headers} ${options} ${shared} ${libraries}")
  if(NOT TARGET heddle_headers_${key})
    add_library(heddle_headers_${key} OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
    target_link_libraries(heddle_headers_${key} PRIVATE heddle_options ${HEDDLE_FMT} nlohmann_json::nlohmann_json ${libraries})
    target_compile_options(heddle_headers_${key} PRIVATE ${options})
    if(shared)
      heddle_in_shared_library(heddle_headers_${key})
    endif()
    target_precompile_headers(heddle_headers_${key} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM heddle_headers_${key})
endfunction()

# Rooms that libheddle.so has parts of are compiled once, for it and for the program. Hidden symbols make -fPIC cost
# nothing: what is called and read is known to be in the same program or library, as in a program.
function(heddle_in_shared_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# heddle_unsanitized_library(target): a build with sanitizers takes this library from the release build, after bringing it
# up to date. Only for what shares no inline function with other rooms: two compilers lay out closures differently.
function(heddle_unsanitized_library target)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${HEDDLE_UNSANITIZED_FROM}/lib${target}.a)
  add_custom_target(${target}_in_release ${CMAKE_SOURCE_DIR}/scripts/build release ${target}
    BYPRODUCTS ${HEDDLE_UNSANITIZED_FROM}/lib${target}.a USES_TERMINAL)
  add_dependencies(${target} ${target}_in_release)
endfunction()

# How much the files of a room are optimised and checked.
function(heddle_room_options target name)
  # What is not in the inner loop of anything compiles in two thirds of the time with -O1.
  if(NOT HEDDLE_SANITIZE AND name MATCHES "^(kernels|cuda|formats|chat|model|gpu|page|server|store|proof|main|library)$")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  # With sanitizers, only what tests spend their time in is optimised: -O0 compiles in a third of the time of -O1.
  if(HEDDLE_SANITIZE AND NOT HEDDLE_FUZZ AND NOT name MATCHES "^(base|quant|ptx|text|grammar|cpu|engine)$")
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(NOT name MATCHES "${HEDDLE_SANITIZED_ROOMS}")
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)  # another may need it
  endif()
endfunction()

# heddle_part(part room DEPENDS rooms... FILES files...): these files of the room as a library heddle_<part> of their own,
# which others can link without the rest of the room. Stands before the room.
function(heddle_part part room)
  cmake_parse_arguments(PART "" "" "DEPENDS;FILES" ${ARGN})
  list(TRANSFORM PART_FILES PREPEND ${CMAKE_SOURCE_DIR}/src/${room}/)
  list(TRANSFORM PART_DEPENDS PREPEND heddle_)
  add_library(heddle_${part} STATIC ${PART_FILES})
  target_link_libraries(heddle_${part} PUBLIC heddle_options ${PART_DEPENDS})
  heddle_in_shared_library(heddle_${part})
  heddle_room_options(heddle_${part} ${room})
  heddle_together(heddle_${part})
  set_property(GLOBAL APPEND PROPERTY heddle_${room}_parts ${PART_FILES})
endfunction()

# heddle_room(name DEPENDS rooms... SEES headers... USES targets... TESTS_USE rooms...): src/<name>/**.cpp as the library
# heddle_<name>. SEES names single headers of rooms it does not depend on, TESTS_USE rooms that only its tests link.
# scripts/check_rooms reads these lines.
# A room without a .cpp yet is an interface library, so that others can already depend on it.
function(heddle_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;SEES;USES;TESTS_USE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/src/${name}/main\\.cpp$|/src/cpu/isa_[a-z0-9_]+\\.cpp$")
  get_property(parts GLOBAL PROPERTY heddle_${name}_parts)
  list(REMOVE_ITEM sources ${parts} "")
  list(TRANSFORM ROOM_DEPENDS PREPEND heddle_)
  list(TRANSFORM ROOM_TESTS_USE PREPEND heddle_)
  set_property(GLOBAL PROPERTY heddle_${name}_tests_use ${ROOM_TESTS_USE})
  if(sources)
    add_library(heddle_${name} STATIC ${sources})
    target_link_libraries(heddle_${name} PUBLIC heddle_options ${ROOM_DEPENDS} ${ROOM_USES})
    if(NOT name MATCHES "^(page|server|proof|main)$")
      heddle_in_shared_library(heddle_${name})
    endif()
    heddle_room_options(heddle_${name} ${name})
    heddle_together(heddle_${name})
  else()
    add_library(heddle_${name} INTERFACE)
    target_link_libraries(heddle_${name} INTERFACE heddle_options ${ROOM_DEPENDS} ${ROOM_USES})
  endif()
endfunction()

# heddle_program(program room DEPENDS rooms... USES targets...): the room as above, so that its tests can link it,
# and src/<room>/main.cpp as the executable.
function(heddle_program program room)
  heddle_room(${room} ${ARGN})
  add_executable(${program} ${CMAKE_SOURCE_DIR}/src/${room}/main.cpp)
  target_link_libraries(${program} PRIVATE heddle_${room})
  if(NOT room MATCHES "${HEDDLE_SANITIZED_ROOMS}")
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# The files of src/page/web as a list for src/page/page.cpp, which has them copied into the program.
function(heddle_page_files)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/page/web/*)
  set(list "")
  set(number 0)
  foreach(file ${files})
    cmake_path(GET file FILENAME name)
    string(APPEND list "HEDDLE_PAGE_FILE(${number}, \"${name}\", \"${file}\")\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(page_files "${list}")
  configure_file(src/page/files.inc.in ${CMAKE_BINARY_DIR}/generated/page/files.inc @ONLY)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/page/page.cpp PROPERTIES
    OBJECT_DEPENDS "${files}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# heddle_tests(name EXCEPT files...): tests/<name>/**.cpp as one GoogleTest program <name>_tests, each TEST a ctest of its
# own. EXCEPT names files in that folder which its own CMakeLists.txt builds.
# tests/<name>/cases/*.cpp are <name>_cases: objects for this program, and for others that run the same cases elsewhere.
# With HEDDLE_TEST_PARTS a ctest is a part of the program: starting thousands of processes takes minutes. Tests with Slow
# or Assemble (it is ptxas that works there) in their name are left out with sanitizers.
function(heddle_tests name)
  cmake_parse_arguments(TESTS "" "" "EXCEPT" ${ARGN})
  list(TRANSFORM TESTS_EXCEPT PREPEND ${CMAKE_SOURCE_DIR}/tests/${name}/)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cpp)
  list(REMOVE_ITEM sources ${TESTS_EXCEPT} "")
  if(HEDDLE_SANITIZE)  # which has a heap of its own
    list(FILTER sources EXCLUDE REGEX "/fenced_memory\\.cpp$")
  endif()
  if(NOT sources)
    return()
  endif()
  get_property(tests_use GLOBAL PROPERTY heddle_${name}_tests_use)

  set(cases ${sources})
  list(FILTER cases INCLUDE REGEX "/tests/${name}/cases/")
  if(cases)
    list(REMOVE_ITEM sources ${cases})
    add_library(${name}_cases OBJECT ${cases})
    target_link_libraries(${name}_cases PUBLIC heddle_${name})
    heddle_test_options(${name}_cases)
  endif()

  add_executable(${name}_tests ${sources})
  target_link_libraries(${name}_tests PRIVATE
    $<TARGET_NAME_IF_EXISTS:${name}_cases> ${tests_use} heddle_${name} GTest::gtest_main)
  heddle_test_options(${name}_tests)
  if(NOT HEDDLE_TEST_PARTS)
    gtest_discover_tests(${name}_tests
      DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES TEST_PREFIX ${name}: PROPERTIES LABELS ${name} TIMEOUT 600)
    return()
  endif()
  if(HEDDLE_SANITIZE)
    set(filter --gtest_filter=-*Slow*:*Assemble*)
  endif()
  # The longest first: at the end, one of them would run alone. With sanitizers the others are not worth a second process.
  set(cost 0)
  set(parts ${HEDDLE_TEST_PARTS})
  if(name MATCHES "^(main|gpu|engine|grammar|ptx|cpu|kernels|model|server|tiers)$")
    set(cost 1)
  elseif(HEDDLE_SANITIZE)
    set(parts 1)
  endif()
  foreach(part RANGE 1 ${parts})
    math(EXPR index "${part} - 1")
    set(test ${name}:part_${part}_of_${parts})
    add_test(NAME ${test} COMMAND ${name}_tests --gtest_brief=1 ${filter})
    set_tests_properties(${test} PROPERTIES LABELS ${name} TIMEOUT 1200 COST ${cost}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index};UBSAN_OPTIONS=print_stacktrace=1")
  endforeach()
endfunction()

function(heddle_test_options target)
  # test helpers are included as "tests/<room>/helper.h"
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE HEDDLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # What is tested is optimised as it is shipped; the tests themselves are not, because compiling them is most of the
  # time: -O0 takes two thirds of -O1, and with sanitizers half.
  set(level -O0)
  if(target MATCHES "^(cpu|engine)_tests$" AND NOT HEDDLE_SANITIZE)  # they spend their time in their references
    set(level $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endif()
  target_compile_options(${target} PRIVATE ${level})
  if(HEDDLE_SANITIZE MATCHES "undefined")
    # What is checked at every access through a pointer takes a sixth of the time. In a test, "address" finds a null too.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment,vptr,object-size)
  endif()
  heddle_together(${target})
endfunction()

# Every folder under tests/ that has the name of a room. One with a CMakeLists.txt of its own says itself what it builds.
function(heddle_all_tests)
  include(GoogleTest)
  file(GLOB rooms CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/*)
  foreach(room ${rooms})
    if(TARGET heddle_${room} AND NOT room MATCHES "${HEDDLE_SANITIZED_ROOMS}")
      continue()
    endif()
    if(EXISTS ${CMAKE_SOURCE_DIR}/tests/${room}/CMakeLists.txt)
      add_subdirectory(tests/${room})
    elseif(TARGET heddle_${room})
      heddle_tests(${room})
    endif()
  endforeach()
endfunction()

# The checks that keep the tree in order, and the tests of those checks. A sanitizer has nothing to say about scripts.
function(heddle_house_tests)
  if(HEDDLE_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  foreach(check rooms names words tree ascii)
    add_test(NAME house:${check} COMMAND ${CMAKE_SOURCE_DIR}/scripts/check_${check})
    add_test(NAME house:${check}_test COMMAND ${CMAKE_SOURCE_DIR}/tests/house/check_${check}_test)
    set_tests_properties(house:${check} house:${check}_test PROPERTIES LABELS house)
  endforeach()
  add_test(NAME house:format COMMAND ${CMAKE_SOURCE_DIR}/scripts/format --check)
  set_tests_properties(house:format PROPERTIES LABELS house SKIP_RETURN_CODE 77)
  add_test(NAME house:scale COMMAND ${CMAKE_SOURCE_DIR}/tools/scale.py --check)
  set_tests_properties(house:scale PROPERTIES LABELS house)
  add_test(NAME house:install COMMAND ${CMAKE_SOURCE_DIR}/tests/house/install_test ${CMAKE_BINARY_DIR})
  add_test(NAME house:image COMMAND ${CMAKE_SOURCE_DIR}/tests/house/image_test ${CMAKE_BINARY_DIR})
  # both of them build
  set_tests_properties(house:install house:image PROPERTIES LABELS house SKIP_RETURN_CODE 77 RESOURCE_LOCK build)
endfunction()

# Every bench/<name>_bench.cpp as one Google Benchmark program, which may use any room.
function(heddle_all_benchmarks)
  if(NOT HEDDLE_BENCHMARKS)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*_bench.cpp)
  foreach(source ${sources})
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE heddle_kernels heddle_cuda heddle_gpu heddle_cpu heddle_model heddle_formats heddle_text heddle_grammar
      heddle_engine heddle_server
      benchmark::benchmark benchmark::benchmark_main)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})  # helpers of tests
    target_compile_definitions(${name} PRIVATE HEDDLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endforeach()
endfunction()
