// The engines that are raced, behind one small interface; the same code in Node and in a page.

/** tilekiln: `api` is the package, `bundle` its bytes. */
export function tilekiln_contender(api, bundle, simd) {
  return {
    name: `tilekiln (${simd})`,
    load: async () => {
      const model = await api.load(bundle, { simd });
      const input = model.inputs[0].name;
      const output = model.outputs[0].name;
      return {
        run: async (data) => (await model.run({ [input]: data }))[output].data,
        dispose: () => model.dispose(),
      };
    },
  };
}

/** onnxruntime-web (or -node): `ort` is the package, `onnx` the model's bytes. */
export function onnxruntime_contender(ort, onnx, name, session_options, shape) {
  return {
    name,
    load: async () => {
      const session = await ort.InferenceSession.create(onnx, session_options);
      const [input] = session.inputNames;
      const [output] = session.outputNames;
      return {
        run: async (data) => (await session.run({ [input]: new ort.Tensor('float32', data, shape) }))[output].data,
        dispose: () => void session.release?.(),
      };
    },
  };
}
