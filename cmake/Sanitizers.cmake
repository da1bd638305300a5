# Toolchain file of the preset `dev`: AddressSanitizer and UndefinedBehaviorSanitizer, and with clang what libFuzzer needs too,
# so that tests and fuzzers share one build. Clang where there is one: it takes half of g++'s time with sanitizers.
set(flags "-fsanitize=address,undefined")
find_program(KILN_CLANG NAMES clang++-14 clang++-19 clang++)
if(KILN_CLANG)
  set(CMAKE_CXX_COMPILER "${KILN_CLANG}")
  string(REPLACE "clang++" "clang" CMAKE_C_COMPILER "${KILN_CLANG}")
  set(flags "-fsanitize=fuzzer-no-link,address,undefined \
-fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/sanitizer_ignorelist.txt")
endif()
set(CMAKE_CXX_FLAGS_DEBUG_INIT "-O1 -fno-omit-frame-pointer -fno-sanitize-recover=undefined ${flags}")
