# The doctest suite in wasm, once for the instructions of each runtime artefact: `ctest --test-dir build/wasm` runs it in Node.
option(KILN_WASM_TESTS "Build the doctest suite for wasm" ON)
if(NOT KILN_WASM_TESTS)
  return()
endif()
enable_testing()

# Test files are compiled once for all artefacts, except those that compile kernel headers themselves. At -O1: quick to build.
file(GLOB_RECURSE wasm_test_files CONFIGURE_DEPENDS src/*test.cc tests/native/*.cc)
list(FILTER wasm_test_files EXCLUDE REGEX "/thread[a-z_]*_test.cc$")  # std::thread is not there: tests/node starts workers
file(GLOB wasm_header_tests CONFIGURE_DEPENDS src/cpu/*test.cc)
list(FILTER wasm_header_tests EXCLUDE REGEX "/thread[a-z_]*_test.cc$")
list(REMOVE_ITEM wasm_test_files ${wasm_header_tests})
add_library(kiln_wasm_test_files OBJECT EXCLUDE_FROM_ALL ${wasm_test_files}
            tests/support/op_test.cc tests/support/op_guards.cc tests/support/pass_test.cc tests/support/text_front_end.cc
            tests/support/main.cc)
add_library(kiln_wasm_test_flags INTERFACE)
target_include_directories(kiln_wasm_test_flags INTERFACE tests/support)
target_compile_definitions(kiln_wasm_test_flags INTERFACE
  DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS KILN_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_options(kiln_wasm_test_flags INTERFACE -O1)
set_source_files_properties(tests/support/main.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON  # doctest's implementation
                            COMPILE_DEFINITIONS DOCTEST_CONFIG_NO_MULTITHREADING)
target_precompile_headers(kiln_wasm_test_files PRIVATE <algorithm> <cmath> <map> <memory> <string> <vector>
                          <doctest/doctest.h>)
target_link_libraries(kiln_wasm_test_files PRIVATE kiln_wasm_test_flags kiln_compile kiln_runtime kiln_vision)

# Node takes .js files for CommonJS only where a package.json says so; ours says the contrary.
set(wasm_test_dir "${CMAKE_BINARY_DIR}/tests")
file(WRITE "${wasm_test_dir}/package.json" "{ \"type\": \"commonjs\" }\n")

# The libraries named first win: an artefact's kernels replace those that the compiler's libraries would bring.
function(kiln_wasm_test name)
  cmake_parse_arguments(arg "" "" "LINK;NODE_OPTIONS" ${ARGN})
  add_executable(${name} ${wasm_header_tests} $<TARGET_OBJECTS:kiln_wasm_test_files>)
  target_link_libraries(${name} PRIVATE kiln_wasm_test_flags ${arg_LINK} kiln_compile)
  # Beyond 2 GB, or at -O2 and above, Emscripten rewrites its JS with parsers that Debian has not.
  target_link_options(${name} PRIVATE -O1 -sENVIRONMENT=node -sEXIT_RUNTIME -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=2GB
                                      -sSTACK_SIZE=1MB -sSTACK_OVERFLOW_CHECK=1)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${wasm_test_dir}")
  add_test(NAME ${name} COMMAND "${KILN_NODE}" ${arg_NODE_OPTIONS} "${wasm_test_dir}/${name}.js")
endfunction()

kiln_wasm_test(kiln_tests_simd LINK kiln_runtime kiln_vision)

# Node 20 has relaxed SIMD behind a flag, which newer ones no longer know.
set(relaxed_flag --experimental-wasm-relaxed-simd)
execute_process(COMMAND "${KILN_NODE}" ${relaxed_flag} -e "" RESULT_VARIABLE no_flag OUTPUT_QUIET ERROR_QUIET)
if(no_flag)
  set(relaxed_flag)
endif()
kiln_wasm_test(kiln_tests_relaxed LINK kiln_relaxed_runtime NODE_OPTIONS ${relaxed_flag})
