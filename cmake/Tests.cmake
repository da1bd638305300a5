# One doctest program out of every test file: src/**/test.cc, src/**/*_test.cc and tests/native/*.cc.
if(EMSCRIPTEN)
  include(cmake/WasmTests.cmake)
  return()
endif()
enable_testing()
find_package(Threads REQUIRED)

# What runs on several threads, for the preset `tsan`.
add_executable(kiln_thread_tests EXCLUDE_FROM_ALL src/cpu/thread_pool_test.cc tests/native/threaded_model_test.cc
               tests/support/text_front_end.cc tests/support/main.cc)
target_include_directories(kiln_thread_tests PRIVATE tests/support)
target_compile_definitions(kiln_thread_tests PRIVATE DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS)
target_link_libraries(kiln_thread_tests PRIVATE kiln_compile kiln_runtime Threads::Threads)

file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS src/*test.cc tests/native/*.cc)
add_executable(kiln_tests ${unit_tests} tests/support/op_test.cc tests/support/op_guards.cc tests/support/pass_test.cc
               tests/support/text_front_end.cc tests/support/main.cc)
target_include_directories(kiln_tests PRIVATE tests/support)
target_compile_definitions(kiln_tests PRIVATE DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
                                              KILN_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(kiln_tests PRIVATE kiln_compile kiln_runtime kiln_vision Threads::Threads)
add_test(NAME unit COMMAND kiln_tests)

# Golden files: `kiln_golden --rewrite tests/golden` rewrites what is expected.
add_executable(kiln_golden tests/golden/main.cc tests/golden/golden.cc tests/golden/onnx_text.cc
               tests/support/text_front_end.cc)
target_include_directories(kiln_golden PRIVATE tests/support)
target_link_libraries(kiln_golden PRIVATE kiln_compile)
add_test(NAME golden COMMAND kiln_golden "${CMAKE_CURRENT_SOURCE_DIR}/tests/golden")

# ONNX's node test vectors: Debian's, and those that are checked out beside the repository, where there are such.
add_executable(kiln_conformance tests/conformance/main.cc tests/conformance/vector_case.cc
                                tests/conformance/operators_page.cc)
target_include_directories(kiln_conformance PRIVATE tests/support)
target_link_libraries(kiln_conformance PRIVATE kiln_compile kiln_runtime)
add_test(NAME conformance COMMAND kiln_conformance
  --exceptions "${CMAKE_CURRENT_SOURCE_DIR}/tests/conformance/exceptions.txt"
  "${KILN_ONNX_TESTDATA_DIR}/node" "${CMAKE_CURRENT_SOURCE_DIR}/../shared/data/onnx-node")
