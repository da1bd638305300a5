// The API tests on the relaxed-SIMD runtime.
import { test_relaxed } from '../support/relaxed.mjs';

test_relaxed([
  'tests/node/run.test.mjs',
  'tests/node/load.test.mjs',
  'tests/node/artefact.test.mjs',
  'tests/node/int8_bits.test.mjs',
]);
