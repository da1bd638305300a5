# The artefacts of the package, in build/wasm/artefacts: kiln-simd.wasm, kiln-relaxed.wasm, both with threads as kiln-*-mt.wasm,
# compiler.wasm.

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

# A threaded artefact over shared, imported memory, out of the objects of `kiln_runtime_entry` and the libraries LINK. em++ links
# shared memory only with pthreads and their JS; wasm-ld does without. wasm-opt needs FEATURES besides those of all artefacts.
set(threaded_memory --import-memory --export-memory --shared-memory --initial-memory=2097152 --max-memory=4294967296)
set(threaded_exports --export=__stack_pointer --export=__wasm_init_tls --export=__wasm_call_ctors)
function(kiln_threaded_artefact name stack_bytes)
  cmake_parse_arguments(arg "" "" "LINK;FEATURES" ${ARGN})
  set(archives)
  foreach(library IN LISTS arg_LINK)
    list(APPEND archives $<TARGET_FILE:${library}>)
  endforeach()
  set(objects $<TARGET_OBJECTS:kiln_runtime_entry> $<TARGET_OBJECTS:kiln_threads_entry>)
  set(artefact "${CMAKE_BINARY_DIR}/artefacts/${name}.wasm")
  set(linked "${CMAKE_BINARY_DIR}/${name}.linked.wasm")
  add_custom_command(OUTPUT "${artefact}" DEPENDS ${objects} ${arg_LINK} COMMAND_EXPAND_LISTS VERBATIM
    COMMAND "${KILN_WASM_LD}" ${objects} ${archives}
      "-L${KILN_EMSCRIPTEN_SYSROOT}/lib/wasm32-emscripten"
      -lemmalloc-ww -lc_optz-ww -lc-ww -lcompiler_rt-ww -lc++-ww-noexcept -lc++abi-ww-noexcept
      --no-entry --gc-sections --strip-all ${threaded_memory} ${threaded_exports}
      -z stack-size=${stack_bytes} --stack-first -o "${linked}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_BINARY_DIR}/artefacts"
    COMMAND "${KILN_WASM_OPT}" -O3 --enable-simd --enable-bulk-memory --enable-nontrapping-float-to-int
      --enable-sign-ext --enable-mutable-globals --enable-threads ${arg_FEATURES} "${linked}" -o "${artefact}")
  add_custom_target(${name} DEPENDS "${artefact}")
endfunction()

set(runtime_entry src/wasm/runtime_abi.cc src/wasm/last_error.cc src/wasm/vision_abi.cc src/wasm/tile_abi.cc)
set(threads_entry src/wasm/threads_abi.cc)

# What runs once a load is small rather than quick; the plain forms of operators are in between.
file(GLOB small_sources CONFIGURE_DEPENDS src/base/*.cc src/bundle/*.cc src/runtime/*.cc)
list(REMOVE_ITEM small_sources "${CMAKE_CURRENT_SOURCE_DIR}/src/bundle/checksum.cc")  # reads all of a bundle
set_source_files_properties(${small_sources} ${runtime_entry} ${threads_entry} src/wasm/one_thread.cc
  PROPERTIES COMPILE_OPTIONS -Oz SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties(${op_reference} PROPERTIES COMPILE_OPTIONS -Os SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties(src/ops/quantize/kernel.cc src/ops/qlinear/kernel.cc src/ops/qlinear/reference.cc
  PROPERTIES COMPILE_OPTIONS -Oz SKIP_PRECOMPILE_HEADERS ON)
# Kernels whose loops are written out as vectors gain nothing from a compiler that makes more of the rest; those that
# no network spends time in are small.
foreach(folder cast concat depth_space expand gather pad quant_pointwise reduce reshape resize shape slice split transpose where)
  file(GLOB folder_kernels CONFIGURE_DEPENDS src/ops/${folder}/kernel.cc src/ops/${folder}/f32.cc)
  set_source_files_properties(${folder_kernels} PROPERTIES COMPILE_OPTIONS -Os SKIP_PRECOMPILE_HEADERS ON)
endforeach()
set_source_files_properties(src/ops/pool/f32.cc src/ops/norm/kernel.cc src/ops/pointwise/kernel.cc
  src/ops/softmax/kernel.cc src/ops/quant_conv/kernel.cc src/ops/conv_transpose/f32.cc
  src/ops/matmul/f32.cc src/cpu/strided_copy.cc src/cpu/broadcast.cc src/vision/detect.cc
  PROPERTIES COMPILE_OPTIONS "-O2;-fno-vectorize;-fno-slp-vectorize" SKIP_PRECOMPILE_HEADERS ON)

add_library(kiln_runtime_entry OBJECT ${runtime_entry})
target_link_libraries(kiln_runtime_entry PRIVATE kiln_runtime kiln_vision)
add_library(kiln_threads_entry OBJECT ${threads_entry})
target_link_libraries(kiln_threads_entry PRIVATE kiln_runtime)
set(one_thread_entry $<TARGET_OBJECTS:kiln_runtime_entry> src/wasm/one_thread.cc)

kiln_artefact(kiln-simd 262144 SOURCES ${one_thread_entry} LINK kiln_runtime kiln_vision)
kiln_threaded_artefact(kiln-simd-mt 262144
  LINK kiln_runtime kiln_vision kiln_op_kernels kiln_op_references kiln_bundle kiln_cpu kiln_base)

# The same sources once more: relaxed SIMD changes what every kernel header compiles to.
file(GLOB relaxed_sources CONFIGURE_DEPENDS
  src/base/*.cc src/cpu/*.cc src/bundle/*.cc src/runtime/*.cc src/vision/*.cc)
list(FILTER relaxed_sources EXCLUDE REGEX "(test|bench)\\.cc$")
kiln_library(kiln_relaxed_runtime FILES ${relaxed_sources} ${op_reference} src/ops/kernel.cc ${op_kernels}
             LINK kiln_bundle_schema)
target_compile_options(kiln_relaxed_runtime PUBLIC -mrelaxed-simd)
kiln_artefact(kiln-relaxed 262144 SOURCES ${one_thread_entry} LINK kiln_relaxed_runtime OPTIONS -mrelaxed-simd)
kiln_threaded_artefact(kiln-relaxed-mt 262144 LINK kiln_relaxed_runtime FEATURES --enable-relaxed-simd)

kiln_artefact(compiler 1048576 SOURCES src/wasm/compiler_abi.cc LINK kiln_compile)

# The compiler's own code runs once a model: small is worth more than quick. What folds constants stays as it is.
foreach(library kiln_graph kiln_onnx kiln_op_definitions kiln_passes kiln_quant kiln_plan kiln_compile)
  target_compile_options(${library} PRIVATE -Oz)
endforeach()

add_custom_target(artefacts DEPENDS kiln-simd kiln-relaxed kiln-simd-mt kiln-relaxed-mt compiler)
