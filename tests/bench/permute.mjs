// Reorders the axes of an array; runs in Node and in a page.

/** `data` of shape `dims` with its axes in another order: result axis k is axis order[k]. A new array of the same type. */
export function permute(data, dims, order) {
  const shape = order.map((axis) => dims[axis]);
  const strides = dims.map((_, axis) => dims.slice(axis + 1).reduce((size, dim) => size * dim, 1));
  const steps = order.map((axis) => strides[axis]);
  const result = new data.constructor(data.length);
  const index = shape.map(() => 0);
  for (let i = 0, from = 0; i < result.length; ++i) {
    result[i] = data[from];
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      from += steps[axis];
      if (++index[axis] < shape[axis]) break;
      from -= steps[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}
