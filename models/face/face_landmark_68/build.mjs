// 68 face landmarks, the larger net: 4 dense blocks of 4 convolutions.
import { build_landmark_net } from '../landmark_net.mjs';

/** The ONNX graph. Options: batch (a number, or a name for a dynamic dim). */
export const build = (recipe, options) =>
  build_landmark_net(recipe, { model: 'face_landmark_68_model', num_blocks: 4, num_convs: 4, ...options });
