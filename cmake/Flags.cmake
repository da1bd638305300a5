# Compiler flags that every target of the project shares.
add_library(kiln_flags INTERFACE)
target_link_libraries(kiln_flags INTERFACE kiln_deps::headers)
target_compile_options(kiln_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter -fno-exceptions -fno-rtti
  -ffp-contract=off)  # the same bits natively and in wasm

if(EMSCRIPTEN)
  # -matomics: the same objects are linked for one thread and for shared memory. Only code that names atomics then has atomic
  # instructions: the guards of statics, which are first used while one thread runs, would be such, and thus come in both.
  target_compile_options(kiln_flags INTERFACE
    -msimd128 -mbulk-memory -mnontrapping-fptoint -matomics -fno-threadsafe-statics)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(kiln_flags INTERFACE -msse4.1)  # what SIMDe needs to be exact and quick
endif()
