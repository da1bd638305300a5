// What only the Node entry point has.
import { Detector, readImage, writeAnnotated, type Mark } from 'tilekiln';

export async function annotate(detector: Detector, file: string): Promise<void> {
  const image = await readImage(file);
  const detections = await detector.detect(image);
  const marks: Mark[] = detections.map(({ box, label }) => ({ box, text: label }));
  await writeAnnotated('out.png', image, marks);
}
