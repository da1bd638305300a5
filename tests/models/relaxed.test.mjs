// The model tests on the relaxed-SIMD runtime.
import { test_relaxed } from '../support/relaxed.mjs';

test_relaxed([
  'tests/models/shared_outputs.test.mjs',
  'tests/models/shared_detections.test.mjs',
  'tests/models/generated_layouts.test.mjs',
  'tests/models/face_nets.test.mjs',
]);
