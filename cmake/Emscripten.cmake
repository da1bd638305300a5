# Toolchain file for wasm builds: Emscripten's own, found through .toolchain/env.cmake.

get_filename_component(_kiln_toolchain "${CMAKE_CURRENT_LIST_DIR}/../.toolchain" ABSOLUTE)
if(NOT EXISTS "${_kiln_toolchain}/env.cmake")
  message(FATAL_ERROR "The toolchain is missing: run scripts/setup.sh first.")
endif()
include("${_kiln_toolchain}/env.cmake")
if(NOT KILN_EMSCRIPTEN_ROOT)
  message(FATAL_ERROR "Emscripten is missing: run `scripts/setup.sh wasm` first.")
endif()
include("${KILN_EMSCRIPTEN_ROOT}/cmake/Modules/Platform/Emscripten.cmake")
