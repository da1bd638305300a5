// Preprocessing recipes, decoder choice, images and SVG marks: what is taken, what is refused and how.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { import_inner } from '../support/inner.mjs';

const { parse_recipe, write_recipe, recipe_of, choose_decoder, check_classes, image_pixels, marks_svg, image_io } =
  await import_inner([
    'vision/recipe.ts',
    'vision/decoder.ts',
    'vision/image.ts',
    'vision/stage.ts',
    'targets/annotate.ts',
  ]);

const info = (shape, more = {}) => ({ name: 'out', dtype: 'f32', layout: '', shape, profiles: [shape], ...more });
const nchw = info([1, 3, 416, 640], { name: 'images', layout: 'NCHW' });

test('a_whole_recipe_reaches_the_struct', () => {
  const view = new DataView(new ArrayBuffer(80));
  const recipe = {
    resize: 'letterbox',
    size: [416, 640],
    position: 'top-left',
    rounding: 'floor',
    pad_value: 7,
    color: 'BGR',
    scale: 2,
    mean: [1, 2, 3],
    std: 4,
    antialias: true,
    round: true,
  };
  write_recipe(view, parse_recipe(JSON.stringify(recipe)), nchw);
  const ints = Array.from({ length: 12 }, (_, i) => view.getInt32(4 * i, true));
  assert.deepEqual(ints, [1, 640, 416, 3, 0, 1, 1, 1, 1, 1, 0, 0]);
  const floats = Array.from({ length: 8 }, (_, i) => view.getFloat32(48 + 4 * i, true));
  assert.deepEqual(floats, [7, 2, 1, 2, 3, 4, 4, 4]);

  write_recipe(view, parse_recipe({ resize: 'resize-crop', resize_shorter: 256, crop: [32, 32] }), {
    ...info([1, 32, 32, 1], { layout: 'NHWC' }),
    dtype: 'u8',
  });
  const others = Array.from({ length: 12 }, (_, i) => view.getInt32(4 * i, true));
  assert.deepEqual(others, [2, 32, 32, 1, 256, 0, 0, 0, 0, 0, 1, 1]);
});

const kBadRecipes = [
  ['{', /preprocessing recipe: .*JSON/],
  ['null', /an object is needed, got null/],
  ['[]', /an object is needed, got \[\]/],
  [{}, /resize is missing; allowed: stretch, letterbox, resize-crop/],
  [{ resize: 'fit' }, /resize="fit"; allowed: stretch, letterbox, resize-crop/],
  [{ resize: 'stretch', color: 'rgb' }, /color="rgb"; allowed: RGB, BGR/],
  [{ resize: 'letterbox', position: 'top_left' }, /position="top_left"; allowed: center, top-left/],
  [{ resize: 'letterbox', rounding: 'round' }, /rounding="round"; allowed: nearest, floor/],
  [{ resize: 'letterbox', pad_value: 256 }, /pad_value=256/],
  [{ resize: 'stretch', std: 0 }, /std=0; allowed: one or three numbers that are not 0/],
  [{ resize: 'stretch', std: [1, 0, 1] }, /std=\[1,0,1\]/],
  [{ resize: 'stretch', mean: [1, 2] }, /mean=\[1,2\]; allowed: one or three numbers/],
  [{ resize: 'stretch', mean: ['a'] }, /mean=\["a"\]/],
  [{ resize: 'stretch', scale: 0 }, /scale=0/],
  [{ resize: 'stretch', size: 416 }, /size=416; allowed: \[height, width\]/],
  [{ resize: 'stretch', size: [416.5, 1] }, /size=\[416\.5,1\]/],
  [{ resize: 'stretch', round: 1 }, /round=1; allowed: true, false/],
  [{ resize: 'letterbox', resize_shorter: 5 }, /resize_shorter goes with resize="resize-crop" only/],
  [{ resize: 'stretch', position: 'center' }, /position goes with resize="letterbox" only/],
  [{ resize: 'stretch', rounding: 'floor' }, /rounding goes with resize="letterbox" only/],
  [{ resize: 'resize-crop', position: 'top-left' }, /position goes with resize="letterbox" only/],
  [{ resize: 'resize-crop', size: [8, 8], crop: [8, 9] }, /size=\[8,8\] and crop=\[8,9\] differ/],
  [{ resize: 'stretch', mean: 1e6 }, /mean=1000000/],
  [{ resize: 'stretch', colour: 'BGR' }, /unknown key 'colour'; allowed: resize, size/],
];

test('size_and_crop_may_say_the_same', () => {
  parse_recipe({ resize: 'resize-crop', resize_shorter: 9, size: [8, 8], crop: [8, 8] });
});

test('bad_recipes_name_the_key', () => {
  for (const [recipe, message] of kBadRecipes) {
    assert.throws(() => parse_recipe(recipe), { name: 'KilnError', code: 'INVALID_ARGUMENT', message });
  }
});

test('a_recipe_is_never_guessed_and_fits_its_input', () => {
  assert.throws(() => recipe_of({}, undefined), { message: /says nothing of preprocessing.*--preprocess/ });
  assert.equal(recipe_of({ preprocess: '{"resize":"stretch"}' }, { resize: 'letterbox' }).resize, 'letterbox');
  const view = new DataView(new ArrayBuffer(80));
  assert.throws(() => write_recipe(view, { resize: 'stretch', size: [640, 416] }, nchw), {
    code: 'SHAPE',
    message: /size \[640, 416\] is not the model input's \[416, 640\]/,
  });
  assert.throws(() => write_recipe(view, { resize: 'resize-crop', resize_shorter: 415 }, nchw), {
    code: 'SHAPE',
    message: /resize_shorter=415 is smaller than the model input's \[416, 640\]/,
  });
  write_recipe(view, { resize: 'resize-crop', resize_shorter: 416 }, nchw);
  for (const bad of [info([1, 10]), info([2, 3, 8, 8]), info([1, 4, 8, 8]), info([1, 3, 8, 8], { dtype: 'i64' })]) {
    assert.throws(() => write_recipe(view, { resize: 'stretch' }, bad), {
      code: 'UNSUPPORTED',
      message: /is no image/,
    });
  }
});

const kShapes = [
  [[1, 84, 8400], 640, 640, 'yolov8', 'v8 and 11'],
  [[1, 5, 8400], 640, 640, 'yolov8', 'one class'],
  [[1, 84, 6300], 480, 640, 'yolov8', 'not square'],
  [[1, 25200, 85], 640, 640, 'yolov5', 'v5'],
  [[1, 25200, 6], 640, 640, 'yolov5', 'v5 with one class'],
  [[1, 3549, 85], 416, 416, 'yolox', 'YOLOX raw'],
  [[1, 3549, 6], 416, 416, 'yolox', 'YOLOX with one class'],
  [[1, 300, 6], 640, 640, 'end2end', 'v10, 26'],
];

test('decoder_follows_from_the_shape', () => {
  for (const [shape, height, width, decoder, name] of kShapes) {
    assert.deepEqual(choose_decoder([info(shape)], height, width, '', undefined), { decoder, output: 0 }, name);
  }
  const two = [info([1, 32, 160, 160]), info([1, 84, 8400])];
  assert.equal(choose_decoder(two, 640, 640, '', undefined).output, 1);
  assert.equal(choose_decoder(two, 640, 640, 'detect:yolov8', undefined).output, 1);
});

test('task_and_option_win_over_the_shape', () => {
  const outputs = [info([1, 3549, 85])];
  assert.equal(choose_decoder(outputs, 416, 416, 'detect:yolov5', undefined).decoder, 'yolov5');
  assert.equal(choose_decoder(outputs, 416, 416, 'detect:yolov5', 'yolox').decoder, 'yolox');
  assert.equal(choose_decoder([info([1, 13, 13, 25])], 416, 416, 'detect:tiny-yolov2', undefined).output, 0);
});

// Shape, input size, decoder that somebody names, whether it fits.
const kNamed = [
  [[1, 3549, 85], 416, 'yolox', true],
  [[1, 3549, 85], 416, 'yolov8', false],
  [[1, 3549, 85], 416, 'yolov5', true], // a head without anchors that decodes its boxes itself
  [[1, 3549, 85], 416, 'end2end', false],
  [[1, 3549, 85], 416, 'tiny-yolov2', false],
  [[1, 3549, 85], 640, 'yolox', false],
  [[3549, 85], 416, 'yolox', true],
  [[2, 3549, 85], 416, 'yolox', false],
  [[1, 25200, 85], 640, 'yolox', false],
  [[1, 25200, 85], 640, 'yolov5', true],
  [[1, 25200, 85], 640, 'yolov8', false],
  [[1, 102000, 85], 1280, 'yolov5', true], // P6
  [[1, 102000, 85], 416, 'yolov5', false],
  [[1, 84, 8400], 640, 'yolov8', true],
  [[1, 84, 8400], 640, 'yolov5', false],
  [[1, 84, 8400], 640, 'yolox', false],
  [[1, 84, 8400], 416, 'yolov8', false],
  [[1, 84, 34000], 640, 'yolov8', true], // P2
  [[1, 84, 1600], 640, 'yolov8', true], // one stride
  [[1, 84, 336], 128, 'yolov5', false], // 84 rows are cells as well
  [[1, 300, 6], 640, 'end2end', true],
  [[1, 300, 6], 640, 'yolox', false],
  [[1, 13, 13, 25], 416, 'tiny-yolov2', true],
  [[1, 169, 25], 416, 'tiny-yolov2', false],
];

test('a_decoder_that_contradicts_the_shape_is_refused', () => {
  for (const [shape, size, decoder, fits] of kNamed) {
    const choose = () => choose_decoder([info(shape)], size, size, '', decoder);
    if (fits) {
      assert.deepEqual(choose(), { decoder, output: 0 }, `${decoder} [${shape}]`);
      continue;
    }
    assert.throws(choose, (error) => {
      const start = `decoder '${decoder}' does not fit output 'out' [${shape.join(', ')}]: for an input of ${size} x`;
      assert.ok(error.message.startsWith(start), error.message);
      assert.match(error.message, /it needs \[1, /);
      return error.code === 'INVALID_ARGUMENT';
    });
  }
  const two = [info([1, 3549, 4]), info([1, 3549, 85])];
  assert.equal(choose_decoder(two, 416, 416, 'detect:yolov5', undefined).output, 1);
});

test('outputs_that_are_no_boxes_are_refused', () => {
  assert.throws(() => choose_decoder([info([1, 1000])], 224, 224, '', undefined), {
    code: 'UNSUPPORTED',
    message: /'out' f32 \[1, 1000\] looks like a YOLO detector's; compile with --task detect:yolov5\|/,
  });
  const half = info([1, 84, 8400], { dtype: 'f16' });
  assert.throws(() => choose_decoder([half], 640, 640, '', undefined), { code: 'UNSUPPORTED' });
  assert.throws(() => choose_decoder([half], 640, 640, 'detect:yolov8', undefined), { message: /is f16, the decoder/ });
  assert.throws(() => choose_decoder([info([1, 84, 8400])], 640, 640, 'detect:yolo9', undefined), {
    code: 'INVALID_ARGUMENT',
    message: /decoder 'yolo9' is unknown; allowed: yolov5, yolov8/,
  });
});

test('mask_and_pose_rows_are_not_taken_for_classes', () => {
  const labels = Array.from({ length: 80 }, (_, i) => `class ${i}`);
  check_classes('yolov8', info([1, 84, 8400]), labels);
  check_classes('yolov8', info([1, 116, 8400]), []);
  assert.throws(() => check_classes('yolov8', info([1, 116, 8400]), labels), {
    code: 'UNSUPPORTED',
    message: /room for 112 classes, but there are 80 labels; a segmentation or pose head/,
  });
});

test('labels_of_another_number_than_the_classes_are_refused', () => {
  const labels = (count) => Array.from({ length: count }, (_, i) => `class ${i}`);
  const cases = [
    ['yolox', [1, 3549, 85], 80],
    ['yolov5', [1, 25200, 85], 80],
    ['yolov8', [1, 84, 8400], 80],
    ['yolov5', [1, 25200, 6], 1],
    ['tiny-yolov2', [1, 13, 13, 25], 1, 5], // objectness alone
    ['tiny-yolov2', [1, 13, 13, 125], 20, 5],
  ];
  for (const [decoder, shape, count, anchors] of cases) {
    check_classes(decoder, info(shape), labels(count), 'options', anchors);
    check_classes(decoder, info(shape), [], 'options', anchors);
    for (const wrong of [count - 1, count + 1].filter(Boolean)) {
      assert.throws(
        () => check_classes(decoder, info(shape), labels(wrong), 'options', anchors),
        (error) => {
          const numbers = `room for ${count} classes, but there are ${wrong} labels in the options`;
          assert.ok(error.message.includes(numbers), error.message);
          return error.code === 'INVALID_ARGUMENT';
        },
      );
    }
  }
  check_classes('end2end', info([1, 300, 6]), labels(3), 'options');
  assert.throws(() => check_classes('yolox', info([1, 3549, 85]), labels(81)), { message: /81 labels in the bundle/ });
});

test('image_models_have_one_input_and_use_the_profile_of_one_image', () => {
  assert.throws(() => image_io({ inputs: [nchw, nchw], outputs: [] }), {
    message: /has 2 inputs, one image is needed/,
  });
  assert.throws(() => image_io({ inputs: [], outputs: [] }), { message: /has 0 inputs/ });
  const input = {
    ...nchw,
    shape: [4, 3, 8, 8],
    profiles: [
      [4, 3, 8, 8],
      [1, 3, 8, 8],
    ],
  };
  const output = {
    ...info([4, 10]),
    profiles: [
      [4, 10],
      [1, 10],
    ],
  };
  const io = image_io({ inputs: [input], outputs: [output] });
  assert.equal(io.profile, 1);
  assert.deepEqual(
    [io.input.shape, io.outputs[0].shape],
    [
      [1, 3, 8, 8],
      [1, 10],
    ],
  );
});

test('pixels_are_checked', () => {
  for (const channels of [1, 3, 4]) {
    const image = { data: new Uint8Array(6 * channels), width: 3, height: 2, channels };
    assert.deepEqual(image_pixels(image), image);
  }
  const rgba = { data: new Uint8ClampedArray(24), width: 3, height: 2 }; // as ImageData
  assert.equal(image_pixels(rgba).channels, 4);
  const cases = [
    [null, /an image is needed, got null/],
    [undefined, /got undefined/],
    ['cat.jpg', /got string/],
    [{}, /is no image; allowed: ImageData, {data, width, height, channels}/],
    [{ width: 5, height: 5 }, /is no image; allowed: ImageData/], // Node has no canvas to draw it on
    [
      { data: new Uint8Array(5), width: 3, height: 2, channels: 3 },
      /3 x 2 x 3 needs 18 bytes in a Uint8Array, got Uint8Array of 5 elements/,
    ],
    [
      { data: new Float32Array(18), width: 3, height: 2, channels: 3 },
      /needs 18 bytes in a Uint8Array, got Float32Array of 18 elements/,
    ],
    [{ data: [1, 2, 3], width: 1, height: 1, channels: 3 }, /in a Uint8Array, got Array of 3 elements/],
    [{ data: new Uint8Array(4), width: 0, height: 2, channels: 3 }, /0 x 2 pixels/],
    [{ data: new Uint8Array(4), width: 1.5, height: 2, channels: 3 }, /sides must be whole and positive/],
    [{ data: new Uint8Array(4), width: 2, height: 1, channels: 2 }, /channels 1, 3 or 4/],
  ];
  for (const [image, message] of cases) {
    assert.throws(() => image_pixels(image), { name: 'KilnError', code: 'INVALID_ARGUMENT', message });
  }
});

test('captions_are_escaped_and_stay_on_the_picture', () => {
  const svg = marks_svg(100, 50, [{ box: [90, 0, 99, 40], text: '<script>&"', points: [[5, 6]], color: 12 }]);
  assert.ok(!svg.includes('<script'));
  assert.match(svg, /&#60;script&#62;&#38;&#34;/);
  assert.match(svg, /<circle cx="5\.0" cy="6\.0"/);
  for (const [, x] of svg.matchAll(/<rect x="([\d.]+)"/g)) assert.ok(Number(x) < 100);
});
