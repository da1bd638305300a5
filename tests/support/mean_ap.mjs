// Mean average precision of detections at one IoU, by the area under the whole precision-recall curve.
import { box_iou } from './boxes.mjs';

/** Area under the precision-recall curve, precision made to fall. `hits`: by falling score, whether each is right. */
export function average_precision(hits, num_objects) {
  let found = 0;
  const points = hits.map((hit, i) => {
    found += hit ? 1 : 0;
    return { precision: found / (i + 1), recall: found / num_objects };
  });
  let area = 0;
  let best = 0;
  for (let i = points.length - 1; i >= 0; --i) {
    best = Math.max(best, points[i].precision);
    area += best * (points[i].recall - (i > 0 ? points[i - 1].recall : 0));
  }
  return area;
}

/**
 * Mean over the classes that have objects.
 * @param {{box: number[], score: number, class: number}[][]} detections a list a picture
 * @param {{box: number[], class: number}[][]} objects a list a picture; boxes [x1, y1, x2, y2]
 */
export function mean_average_precision(detections, objects, iou = 0.5) {
  const classes = [...new Set(objects.flat().map((object) => object.class))];
  const precisions = classes.map((id) => {
    const wanted = objects.map((list) => list.filter((object) => object.class === id));
    const taken = wanted.map((list) => list.map(() => false));
    const found = detections
      .flatMap((list, picture) => list.filter((one) => one.class === id).map((one) => ({ ...one, picture })))
      .sort((a, b) => b.score - a.score);
    const hits = found.map(({ box, picture }) => {
      const overlaps = wanted[picture].map((object) => box_iou(object.box, box));
      const best = overlaps.indexOf(Math.max(...overlaps));
      if (best < 0 || overlaps[best] < iou || taken[picture][best]) return false;
      return (taken[picture][best] = true);
    });
    return average_precision(hits, wanted.flat().length);
  });
  return precisions.reduce((sum, ap) => sum + ap, 0) / classes.length;
}
