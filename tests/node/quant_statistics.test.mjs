// Statistics, likeness and warnings of quantisation against formulas written out plainly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { random_tensor } from '../support/api.mjs';
import { quant } from '../support/quant_inner.mjs';

const kBins = 2048;
const numbers = (count, seed) => random_tensor([count], seed).data;

function ranged(arrays) {
  const range = { min: Infinity, max: -Infinity, widest_sample: 0 };
  arrays.forEach((data, i) => assert.ok(quant.widen_range(range, data, i)));
  return range;
}

test('range_is_the_least_and_the_largest_of_all_samples', () => {
  const arrays = [numbers(1000, 1), numbers(10, 2).map((v) => 3 * v), numbers(1, 3)];
  const all = arrays.flatMap((data) => [...data]);
  const { min, max, widest_sample } = ranged(arrays);
  assert.deepEqual([min, max, widest_sample], [Math.min(...all), Math.max(...all), 1]);
});

test('a_number_that_is_not_finite_is_found_wherever_it_is', () => {
  for (const bad of [NaN, Infinity, -Infinity]) {
    for (const at of [0, 5, 9]) {
      const data = numbers(10, 4);
      data[at] = bad;
      assert.equal(quant.widen_range({ min: 0, max: 0, widest_sample: 0 }, data, 0), false, `${bad} at ${at}`);
    }
  }
});

test('histogram_and_channel_means_equal_the_plain_formulas', () => {
  const arrays = [numbers(7 * 5, 5), numbers(4 * 5, 6), numbers(5, 7).map((v) => 2 * v)];
  const range = ranged(arrays);
  const counts = quant.make_counts(range, 5);
  for (const data of arrays) quant.add_counts(counts, data);
  const histogram = new Array(kBins).fill(0);
  const sums = new Array(5).fill(0);
  let rows = 0;
  for (const data of arrays) {
    data.forEach((v, i) => {
      const bin = Math.floor((v - range.min) * (kBins / (range.max - range.min)));
      ++histogram[Math.min(kBins - 1, bin)];
      sums[i % 5] += v;
    });
    rows += data.length / 5;
  }
  assert.deepEqual([...counts.histogram], histogram);
  assert.equal(counts.rows, rows);
  assert.deepEqual([...counts.channel_sum], sums);
  assert.ok(counts.histogram.at(-1) >= 1, 'the largest lies in the last bin');
});

test('a_constant_value_has_all_in_one_bin', () => {
  const data = new Float32Array(12).fill(0.3);
  const counts = quant.make_counts(ranged([data]), 0);
  quant.add_counts(counts, data);
  assert.equal(counts.histogram[0], 12);
  assert.equal(counts.channel_sum.length, 0);
});

test('likeness_equals_the_plain_formulas', () => {
  const sums = new quant.LikenessSums();
  let [ff, qq, fq, ee] = [0, 0, 0, 0];
  for (const seed of [8, 9]) {
    const float = numbers(500, seed);
    const other = float.map((v, i) => v + 0.01 * Math.sin(i));
    sums.add(float, other);
    float.forEach((f, i) => {
      const q = other[i];
      [ff, qq, fq, ee] = [ff + f * f, qq + q * q, fq + f * q, ee + (f - q) ** 2];
    });
  }
  const { sqnr_db, cosine } = sums.likeness;
  assert.ok(Math.abs(sqnr_db - 10 * Math.log10(ff / ee)) < 1e-9);
  assert.ok(Math.abs(cosine - fq / Math.sqrt(ff * qq)) < 1e-12);
});

test('likeness_at_the_edges', () => {
  const of = (float, other) => {
    const sums = new quant.LikenessSums();
    sums.add(Float32Array.from(float), Float32Array.from(other));
    return sums.likeness;
  };
  assert.deepEqual(of([1, 2], [1, 2]), { sqnr_db: Infinity, cosine: 1 });
  assert.deepEqual(of([0, 0], [0, 0]), { sqnr_db: Infinity, cosine: 1 });
  assert.deepEqual(of([0, 0], [1, 0]), { sqnr_db: -Infinity, cosine: 0 });
  assert.deepEqual(of([1, 0], [0, 0]), { sqnr_db: 0, cosine: 0 });
});

test('few_samples_and_unbalanced_folders_are_said', () => {
  assert.deepEqual(quant.size_notices(100), []);
  assert.match(quant.size_notices(26)[0], /^26 calibration samples: .*fewer than 100.*take 100 to 1000/);
  assert.match(quant.size_notices(1)[0], /^1 calibration sample:/);
  assert.deepEqual(quant.balance_notices(new Map()), []);
  assert.deepEqual(
    quant.balance_notices(
      new Map([
        ['cat', 30],
        ['dog', 10],
      ]),
    ),
    [],
  );
  const counts = new Map([
    ['bird', 20],
    ['cat', 31],
    ['dog', 10],
  ]);
  assert.match(quant.balance_notices(counts)[0], /unbalanced: class folder 'cat' gives 31 pictures, 'dog' 10;/);
});

test('a_range_ruled_by_outliers_is_said_with_value_and_sample', () => {
  const statistics_of = (arrays) => {
    const range = ranged(arrays);
    const counts = quant.make_counts(range, 0);
    for (const data of arrays) quant.add_counts(counts, data);
    const { min, max, histogram } = counts;
    return { min, max, histogram, channel_mean: new Float64Array(), widest_sample: range.widest_sample };
  };
  const plain = statistics_of([numbers(20_000, 10), numbers(20_000, 11)]);
  const spiky = [numbers(20_000, 12), numbers(20_000, 13)];
  spiky[1][77] = 40;
  const outlier = statistics_of(spiky);
  assert.ok(quant.core_share(plain) > 0.9);
  assert.ok(quant.core_share(outlier) < 1 / 8);
  const values = new Map([
    ['plain', plain],
    ['spiky', outlier],
  ]);
  const notices = quant.outlier_notices({ samples: 2, values }, 'search');
  assert.equal(notices.length, 1);
  assert.match(notices[0], /'spiky' \(-1\.00 to 40\.0; .*widest: sample 2 of 2\)/);
  assert.doesNotMatch(notices[0], /'plain'/);
  assert.match(notices[0], /--calib-method percentile or more pictures help/);
  assert.doesNotMatch(quant.outlier_notices({ samples: 2, values }, 'percentile')[0], /--calib-method/);
  assert.deepEqual(quant.outlier_notices({ samples: 2, values: new Map([['plain', plain]]) }, 'search'), []);
});
