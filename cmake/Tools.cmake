# Programs for the command line of a developer: native builds only.
if(NOT EMSCRIPTEN)
  add_executable(tilekiln-compiler src/tools/tilekiln_compiler.cc)
  target_link_libraries(tilekiln-compiler PRIVATE kiln_compile)
endif()
