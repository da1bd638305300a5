# The artefacts of the package, in build/wasm/artefacts: kiln-simd.wasm, kiln-relaxed.wasm, compiler.wasm.

set(kiln_link_options
  --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH -sMALLOC=emmalloc -sFILESYSTEM=0
  -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=2MB -Wl,--gc-sections -Wl,--strip-all)

# An artefact that exports what its ABI header marks with KILN_EXPORT, and its memory.
function(kiln_artefact name stack_bytes)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;OPTIONS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_options(${name} PRIVATE ${kiln_link_options} -sSTACK_SIZE=${stack_bytes} ${arg_OPTIONS})
  set_target_properties(${name} PROPERTIES
    SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/artefacts")
endfunction()

set(runtime_entry src/wasm/runtime_abi.cc src/wasm/last_error.cc src/wasm/vision_abi.cc)

# What runs once a load is small rather than quick; the plain forms of operators are in between.
file(GLOB small_sources CONFIGURE_DEPENDS src/base/*.cc src/bundle/*.cc src/runtime/*.cc)
set_source_files_properties(${small_sources} ${runtime_entry} PROPERTIES COMPILE_OPTIONS -Oz SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties(${op_reference} PROPERTIES COMPILE_OPTIONS -Os SKIP_PRECOMPILE_HEADERS ON)

kiln_artefact(kiln-simd 262144 SOURCES ${runtime_entry} LINK kiln_runtime kiln_vision)

# The same sources once more: relaxed SIMD changes what every kernel header compiles to.
file(GLOB relaxed_sources CONFIGURE_DEPENDS
  src/base/*.cc src/cpu/*.cc src/bundle/*.cc src/runtime/*.cc src/vision/*.cc)
list(FILTER relaxed_sources EXCLUDE REGEX "(test|bench)\\.cc$")
kiln_library(kiln_relaxed_runtime FILES ${relaxed_sources} ${op_reference} src/ops/kernel.cc ${op_kernels}
             LINK kiln_bundle_schema)
target_compile_options(kiln_relaxed_runtime PUBLIC -mrelaxed-simd)
kiln_artefact(kiln-relaxed 262144 SOURCES ${runtime_entry} LINK kiln_relaxed_runtime OPTIONS -mrelaxed-simd)

kiln_artefact(compiler 1048576 SOURCES src/wasm/compiler_abi.cc LINK kiln_compile)

# The compiler's own code runs once a model: small is worth more than quick. What folds constants stays as it is.
foreach(library kiln_graph kiln_onnx kiln_op_definitions kiln_passes kiln_plan kiln_compile)
  target_compile_options(${library} PRIVATE -Oz)
endforeach()

add_custom_target(artefacts DEPENDS kiln-simd kiln-relaxed compiler)
