/* The most arithmetic that one core can do, for comparison with peak.mjs: 12 chains of multiply-adds in registers
   as wide as the machine has. Prints the width in bits and GFLOP/s. Build: cc -O3 -march=native -ffp-contract=fast */
#include <stdio.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

enum { kChains = 12, kLanes = sizeof(Vector) / sizeof(float), kPasses = 5000000, kSamples = 9 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void) {
  double best = 0;
  float sink = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    Vector chains[kChains];
    Vector m = {0}, c = {0};
    m += 0.999f;
    c += 0.001f;
    for (int i = 0; i < kChains; ++i) chains[i] = c * (float)(i + 1); /* different: equal ones would be computed once */
    const double start = seconds();
    for (long pass = 0; pass < kPasses; ++pass) {
#pragma GCC unroll 12
      for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * m + c;
    }
    const double gflops = 2.0 * kChains * kLanes * kPasses / (seconds() - start) * 1e-9;
    if (gflops > best) best = gflops;
    for (int i = 0; i < kChains; ++i) sink += chains[i][0];
  }
  printf("%d %.2f\n", 8 * VECTOR_BYTES, best);
  return sink < 0; /* never, but the compiler must not know */
}
