// Draws a picture with boxes and captions on a canvas.

const kColors = [
  '#e6194b',
  '#3cb44b',
  '#4363d8',
  '#f58231',
  '#911eb4',
  '#008080',
  '#9a6324',
  '#800000',
  '#808000',
  '#000075',
];

/** The colour of a class. */
export const class_color = (index) => kColors[index % kColors.length];

/** The canvas is shown at most as wide as its frame and 70 % as high as the window (style.css). */
function picture_pixels_per_screen_pixel({ width, height, parentElement }) {
  return Math.max(1, width / parentElement.clientWidth, height / (0.7 * window.innerHeight));
}

/**
 * @param {HTMLCanvasElement} canvas takes the picture's size
 * @param {ImageBitmap} picture
 * @param {{box: number[], label: string, score: number, class: number}[]} detections in pixels of the picture
 */
export function draw_detections(canvas, picture, detections) {
  canvas.width = picture.width;
  canvas.height = picture.height;
  const context = canvas.getContext('2d');
  context.drawImage(picture, 0, 0);
  const unit = picture_pixels_per_screen_pixel(canvas);
  context.lineWidth = 2 * unit;
  const font = 13 * unit;
  context.font = `600 ${font}px system-ui, sans-serif`;
  context.textBaseline = 'top';
  for (const { box, label, score, class: class_id } of detections) {
    const [x1, y1, x2, y2] = box;
    const caption = `${label} ${score.toFixed(2)}`;
    const width = context.measureText(caption).width + font * 0.5;
    const top = y1 >= font * 1.3 ? y1 - font * 1.3 : y1;
    context.strokeStyle = context.fillStyle = class_color(class_id);
    context.strokeRect(x1, y1, x2 - x1, y2 - y1);
    const left = Math.max(0, Math.min(x1, picture.width - width));
    context.fillRect(left, top, width, font * 1.3);
    context.fillStyle = '#fff';
    context.fillText(caption, left + font * 0.25, top + font * 0.15);
  }
}
