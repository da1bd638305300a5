// The layers of the face nets as ONNX nodes: TensorFlow's filters (h, w, in, out) become ONNX's (out, in, h, w).

/** The pads [top, left, bottom, right] of TensorFlow's 'same' padding: what is odd goes after. */
export function same_pads(size, kernel, stride) {
  const total = Math.max((Math.ceil(size / stride) - 1) * stride + kernel - size, 0);
  const before = Math.floor(total / 2);
  return [before, before, total - before, total - before];
}

// (h, w, in, out) → (out, in, h, w); a depthwise filter (h, w, channels, 1) → (channels, 1, h, w).
function filters_to_onnx({ shape: [h, w, c, n], data }, is_depthwise) {
  const out = new Float32Array(data.length);
  for (let i = 0; i < h * w; i++) {
    for (let j = 0; j < c; j++) {
      for (let k = 0; k < n; k++) {
        out[(is_depthwise ? j : k * c + j) * h * w + i] = data[(i * c + j) * n + k];
      }
    }
  }
  return { dims: is_depthwise ? [c, 1, h, w] : [n, c, h, w], data: out };
}

function conv_node(g, x, name, filters, bias, { stride = 1, pads = [0, 0, 0, 0], is_depthwise = false } = {}) {
  const { dims, data } = filters_to_onnx(filters, is_depthwise);
  const inputs = [x, g.initializer(`${name}.weight`, 'float32', dims, data)];
  if (bias) inputs.push(g.initializer(`${name}.bias`, 'float32', [dims[0]], bias));
  return g.node(
    'Conv',
    inputs,
    {
      dilations: [1, 1],
      group: is_depthwise ? dims[0] : 1,
      kernel_shape: dims.slice(2),
      pads,
      strides: [stride, stride],
    },
    { name: `${name}.Conv` },
  );
}

/** Convolution with bias: weights NAME/filters and NAME/bias. Options: stride, pads. */
export function conv(g, weights, x, name, options) {
  return conv_node(g, x, name, weights.get(`${name}/filters`), weights.get(`${name}/bias`).data, options);
}

/** Depthwise 3x3 without bias, then pointwise with bias; `stride` and `pads` are the depthwise one's. */
export function separable_conv(g, weights, x, name, options) {
  const y = conv_node(g, x, `${name}.depthwise`, weights.get(`${name}/depthwise_filter`), null, {
    ...options,
    is_depthwise: true,
  });
  return conv_node(
    g,
    y,
    `${name}.pointwise`,
    weights.get(`${name}/pointwise_filter`),
    weights.get(`${name}/bias`).data,
  );
}

/** Convolution, bias and the scale layer after it, y = (conv + bias) * weights + biases, folded into one Conv. */
export function scaled_conv(g, weights, x, name, options) {
  const filters = weights.get(`${name}/conv/filters`);
  const bias = weights.get(`${name}/conv/bias`).data;
  const scale = weights.get(`${name}/scale/weights`).data;
  const shift = weights.get(`${name}/scale/biases`).data;
  const data = filters.data.map((value, i) => value * scale[i % scale.length]);
  return conv_node(
    g,
    x,
    name,
    { shape: filters.shape, data },
    bias.map((value, i) => value * scale[i] + shift[i]),
    options,
  );
}

/** Fully connected layer from a weight of (in, out); bias may be absent. */
export function fully_connected(g, x, name, weight, bias) {
  const [rows, columns] = weight.shape;
  const inputs = [x, g.initializer(`${name}.weight`, 'float32', [rows, columns], weight.data)];
  if (bias) inputs.push(g.initializer(`${name}.bias`, 'float32', [columns], bias.data));
  return g.node('Gemm', inputs, {}, { name: `${name}.Gemm`, outputs: ['output'] });
}
