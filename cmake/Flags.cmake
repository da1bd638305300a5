# Compiler flags that every target of the project shares.
add_library(kiln_flags INTERFACE)
target_link_libraries(kiln_flags INTERFACE kiln_deps::headers)
target_compile_options(kiln_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter -fno-exceptions -fno-rtti
  -ffp-contract=off)  # the same bits natively and in wasm

option(KILN_SANITIZE "ASan and UBSan" OFF)
if(KILN_SANITIZE)
  target_compile_options(kiln_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                              -fno-omit-frame-pointer)
  target_link_options(kiln_flags INTERFACE -fsanitize=address,undefined)
endif()

if(EMSCRIPTEN)
  target_compile_options(kiln_flags INTERFACE -msimd128 -mbulk-memory -mnontrapping-fptoint)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(kiln_flags INTERFACE -msse4.1)  # what SIMDe needs to be exact and quick
endif()
