# Toolchain file of the preset `tsan`: ThreadSanitizer, by the compiler that the preset `dev` takes.
find_program(KILN_CLANG NAMES clang++-14 clang++-19 clang++)
if(KILN_CLANG)
  set(CMAKE_CXX_COMPILER "${KILN_CLANG}")
  string(REPLACE "clang++" "clang" CMAKE_C_COMPILER "${KILN_CLANG}")
endif()
set(CMAKE_CXX_FLAGS_DEBUG_INIT "-O1 -fno-omit-frame-pointer -fsanitize=thread")
