// 68 face landmarks, the small net: 3 dense blocks of 3 convolutions.
import { build_landmark_net } from '../landmark_net.mjs';

/** The ONNX graph. Options: batch (a number, or a name for a dynamic dim). */
export const build = (recipe, options) =>
  build_landmark_net(recipe, { model: 'face_landmark_68_tiny_model', num_blocks: 3, num_convs: 3, ...options });
