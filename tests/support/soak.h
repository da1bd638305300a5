// How long tests over random cases are: TILEKILN_SOAK=N in the environment tries N times as many (`npm run soak`). Such
// tests are in the test suite "random".
#pragma once

#include <cstdint>
#include <cstdlib>

namespace kiln::test {

// `usual` times TILEKILN_SOAK, where it is a whole number above 1.
inline uint64_t soak_cases(uint64_t usual) {
  const char* factor = std::getenv("TILEKILN_SOAK");
  const unsigned long long times = factor == nullptr ? 1 : std::strtoull(factor, nullptr, 10);
  return usual * (times > 1 ? times : 1);
}

}  // namespace kiln::test
