# Toolchain file for fuzzing: the clang whose runtime scripts/setup.sh installed.

find_program(CMAKE_CXX_COMPILER NAMES clang++-14 clang++-19 clang++ REQUIRED)
string(REPLACE "clang++" "clang" CMAKE_C_COMPILER "${CMAKE_CXX_COMPILER}")
