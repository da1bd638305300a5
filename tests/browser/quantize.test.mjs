// Quantisation in a page: the same bundle as in Node, with progress, from pictures of the page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../support/api.mjs';
import { chromium_absent, open_page } from '../support/page.mjs';
import { planted_net, planted_samples } from '../support/quant_net.mjs';

const options = { skip: chromium_absent };
const kOnnx = planted_net({ bad: -1 });
const kRecipe = { resize: 'stretch', scale: 255 };

/** Pixels of 6 x 6, RGBA, as arrays of numbers. */
const kPictures = planted_samples(8).map(({ data }) =>
  Array.from({ length: 144 }, (_, at) => (at % 4 === 3 ? 255 : Math.floor(255 * data[(at % 4) * 36 + (at >> 2)]))),
);

test('the_same_bundle_as_in_node', options, async (t) => {
  const { page, complaints } = await open_page(t, { files: { '/planted.onnx': Buffer.from(kOnnx) } });
  const in_page = await page.evaluate(
    async ([pictures, preprocess]) => {
      const images = pictures.map((pixels) => new ImageData(Uint8ClampedArray.from(pixels), 6, 6));
      const stages = new Set();
      let text;
      const bundle = await api.compile('/planted.onnx', {
        preprocess,
        precision: 'int8',
        calibration: images.values(), // can be gone through only once
        quantization: { evaluate: () => images, onReport: (report) => (text = api.quantizationText(report)) },
        onProgress: ({ stage }) => stages.add(stage),
      });
      return { base64: to_base64(bundle), stages: [...stages], text };
    },
    [kPictures, kRecipe],
  );
  const calibration = kPictures.map((pixels) => {
    return { data: Uint8Array.from(pixels), width: 6, height: 6, channels: 4 };
  });
  const in_node = await api.compile(kOnnx, { preprocess: kRecipe, precision: 'int8', calibration });
  assert.equal(in_page.base64, Buffer.from(in_node).toString('base64'));
  assert.deepEqual(in_page.stages, ['download', 'compile', 'calibrate', 'evaluate', 'compare']);
  assert.match(in_page.text, /^method search, 8 calibration samples\nint8: /);
  assert.deepEqual(complaints, []);
});
