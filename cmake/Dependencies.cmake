# What tilekiln uses from outside, as scripts/setup.sh left it in .toolchain, for native and for wasm builds:
#
#   kiln_deps::headers        SIMDe, FlatBuffers, doctest, CLI11, xxhash.h (header-only)
#   kiln_deps::protobuf_lite  the lite runtime, of the same version as protoc
#   kiln_proto_library(NAME FILE.proto)             NAME: static library with FILE.pb.h, lite runtime
#   kiln_flatbuffer_header(NAME FILE.fbs [flag…])   NAME: interface library with FILE_generated.h
#   KILN_ONNX_PROTO, KILN_ONNX_TESTDATA_DIR, KILN_NODE, KILN_WASM_OPT, KILN_WASM_LD
#
# All are system includes: their warnings are not ours. Generated files lie in the build tree.

include_guard(GLOBAL)

get_filename_component(KILN_TOOLCHAIN_DIR "${CMAKE_CURRENT_LIST_DIR}/../.toolchain" ABSOLUTE)
if(NOT EXISTS "${KILN_TOOLCHAIN_DIR}/env.cmake")
  message(FATAL_ERROR "The toolchain is missing: run scripts/setup.sh first.")
endif()
include("${KILN_TOOLCHAIN_DIR}/env.cmake")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${KILN_TOOLCHAIN_DIR}/env.cmake")

set(KILN_ONNX_PROTO "${KILN_INCLUDE_DIR}/onnx/onnx.proto")

# Programs run here, whatever the target: Emscripten's toolchain file would look for them in its sysroot.
find_program(KILN_PROTOC protoc REQUIRED NO_CMAKE_FIND_ROOT_PATH)
find_program(KILN_FLATC flatc REQUIRED NO_CMAKE_FIND_ROOT_PATH)
find_program(KILN_NODE node REQUIRED NO_CMAKE_FIND_ROOT_PATH)
if(EMSCRIPTEN)
  find_program(KILN_WASM_OPT wasm-opt REQUIRED NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS "${KILN_BINARYEN_ROOT}/bin")
  find_program(KILN_WASM_LD wasm-ld REQUIRED NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS "${KILN_LLVM_ROOT}")
endif()

add_library(kiln_deps_headers INTERFACE)
add_library(kiln_deps::headers ALIAS kiln_deps_headers)
target_include_directories(kiln_deps_headers SYSTEM INTERFACE "${KILN_INCLUDE_DIR}")

if(EMSCRIPTEN)
  add_library(kiln_deps::protobuf_lite STATIC IMPORTED GLOBAL)
  set_target_properties(kiln_deps::protobuf_lite PROPERTIES
    IMPORTED_LOCATION "${KILN_PROTOBUF_WASM_DIR}/lib/libprotobuf-lite.a"
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_PROTOBUF_WASM_DIR}/include")
  if(NOT EXISTS "${KILN_PROTOBUF_WASM_DIR}/lib/libprotobuf-lite.a")
    message(FATAL_ERROR "protobuf-lite for wasm is missing: run `scripts/setup.sh wasm` first.")
  endif()
  file(STRINGS "${KILN_PROTOBUF_WASM_DIR}/include/google/protobuf/stubs/common.h" _kiln_version_line
    REGEX "#define GOOGLE_PROTOBUF_VERSION ")
else()
  find_library(KILN_PROTOBUF_LITE_LIBRARY protobuf-lite REQUIRED)
  find_path(KILN_PROTOBUF_INCLUDE_DIR google/protobuf/message_lite.h REQUIRED)
  find_package(Threads REQUIRED)
  add_library(kiln_deps::protobuf_lite UNKNOWN IMPORTED GLOBAL)
  set_target_properties(kiln_deps::protobuf_lite PROPERTIES
    IMPORTED_LOCATION "${KILN_PROTOBUF_LITE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_PROTOBUF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
  file(STRINGS "${KILN_PROTOBUF_INCLUDE_DIR}/google/protobuf/stubs/common.h" _kiln_version_line
    REGEX "#define GOOGLE_PROTOBUF_VERSION ")
endif()

# Code made by one version of protoc does not compile against another's headers: better said here than there.
execute_process(COMMAND "${KILN_PROTOC}" --version OUTPUT_VARIABLE _kiln_protoc_version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" _kiln_protoc_version "${_kiln_protoc_version}")
string(REGEX MATCH "[0-9]+$" _kiln_version "${_kiln_version_line}")
if(_kiln_version)
  math(EXPR _kiln_major "${_kiln_version} / 1000000")
  math(EXPR _kiln_minor "${_kiln_version} / 1000 % 1000")
  math(EXPR _kiln_patch "${_kiln_version} % 1000")
  set(_kiln_version "${_kiln_major}.${_kiln_minor}.${_kiln_patch}")
  if(NOT _kiln_protoc_version VERSION_EQUAL _kiln_version)
    message(FATAL_ERROR "protoc is ${_kiln_protoc_version}, but the protobuf headers are ${_kiln_version}: "
      "another protoc comes first on PATH (${KILN_PROTOC}), or scripts/setup.sh has to run again.")
  endif()
endif()

function(kiln_proto_library name proto)
  get_filename_component(proto "${proto}" ABSOLUTE)
  get_filename_component(stem "${proto}" NAME_WE)
  get_filename_component(dir "${proto}" DIRECTORY)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${out}")
  add_custom_command(
    OUTPUT "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h"
    COMMAND "${KILN_PROTOC}" "--cpp_out=lite:${out}" "-I${dir}" "${proto}"
    DEPENDS "${proto}"
    COMMENT "protoc ${stem}.proto"
    VERBATIM)
  add_library(${name} STATIC "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
  target_include_directories(${name} SYSTEM PUBLIC "${out}")
  target_link_libraries(${name} PUBLIC kiln_deps::protobuf_lite)
  # Parsing is quick anyway, and as -O3 this code would be half of the compiler's wasm.
  target_compile_options(${name} PRIVATE -w -fno-exceptions -fno-rtti $<$<BOOL:${EMSCRIPTEN}>:-Oz>)
endfunction()

function(kiln_flatbuffer_header name schema)
  get_filename_component(schema "${schema}" ABSOLUTE)
  get_filename_component(stem "${schema}" NAME_WE)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${out}")
  add_custom_command(
    OUTPUT "${out}/${stem}_generated.h"
    COMMAND "${KILN_FLATC}" --cpp --cpp-std c++17 ${ARGN} -o "${out}" "${schema}"
    DEPENDS "${schema}"
    COMMENT "flatc ${stem}.fbs"
    VERBATIM)
  add_custom_target(${name}_header DEPENDS "${out}/${stem}_generated.h")
  add_library(${name} INTERFACE)
  add_dependencies(${name} ${name}_header)
  target_include_directories(${name} SYSTEM INTERFACE "${out}")
  target_link_libraries(${name} INTERFACE kiln_deps::headers)
endfunction()
