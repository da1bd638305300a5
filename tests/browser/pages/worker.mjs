// The package in a module worker: one run and one detection, answered by message.
import { Detector, load } from '/dist/index.js';

self.onmessage = async ({ data: { net, images, detector, picture } }) => {
  try {
    const model = await load(net);
    const { logits } = await model.run({ images });
    const faces = await Detector.load(detector);
    const bitmap = await createImageBitmap(await (await fetch(picture)).blob());
    const detections = await faces.detect(bitmap);
    self.postMessage({ logits: [...logits.data], fed: images.length, detections });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
