// The tests' own mean average precision, by hand-made cases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { average_precision, mean_average_precision } from '../support/mean_ap.mjs';

const at = (x, id = 0, score = 1) => ({ box: [x, 0, x + 10, 10], class: id, score });

test('area_under_the_falling_precision', () => {
  assert.equal(average_precision([true, true], 2), 1);
  assert.equal(average_precision([true, false, true], 2), 0.5 + 0.5 * (2 / 3));
  assert.equal(average_precision([false, true], 1), 0.5);
  assert.equal(average_precision([], 3), 0);
});

test('an_object_is_found_once_and_classes_count_alike', () => {
  const objects = [[at(0), at(50, 1)], [at(0)]];
  assert.equal(mean_average_precision([[at(0), at(50, 1)], [at(1)]], objects), 1);
  assert.equal(mean_average_precision([[at(0)], [at(0)]], objects), 0.5);
  const twice = [[at(0, 0, 0.9), at(1, 0, 0.8)], [at(0, 0, 0.7)]];
  assert.equal(mean_average_precision(twice, [[at(0)], [at(0)]]), 0.5 + 0.5 * (2 / 3));
  assert.equal(mean_average_precision([[at(6)], []], [[at(0)], []]), 0);
});
