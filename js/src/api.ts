/// <reference lib="dom" preserve="true" />
/// <reference lib="esnext.disposable" preserve="true" />
// The public API of package `tilekiln`: everything that users import.
export { KilnError, type ErrorCode, type Problem } from './core/errors.ts';
export { Tensor, type DType, type TypedArray } from './core/tensor.ts';
export type { ModelSource, Progress } from './core/source.ts';
export { capabilities, type Capabilities, type SimdLevel, type WasmSource } from './core/artefact.ts';
export type { Feed } from './core/feed.ts';
export {
  load,
  Model,
  type Feeds,
  type LoadOptions,
  type ModelMemory,
  type RunOptions,
  type StepInfo,
  type TensorInfo,
} from './core/model.ts';
export type { ThreadCount } from './core/threads.ts';
export { compile, type CompileOptions } from './compiler/compile.ts';
export type { NamedFiles } from './compiler/run_compiler.ts';
export type { CalibrationMethod, QuantizationOptions } from './quant/quantize_options.ts';
export type { Sample, Samples } from './quant/samples.ts';
export type { RuntimeOptions } from './quant/sampled_model.ts';
export type { Evaluation, LossMetric } from './quant/evaluate.ts';
export type { Likeness } from './quant/compare.ts';
export {
  quantization_text as quantizationText,
  type CompiledLayer,
  type CompilerReport,
  type LayerReport,
  type QuantizationReport,
  type RollBackStep,
} from './quant/report.ts';
export { quantization_svg as quantizationSvg } from './quant/report_svg.ts';
export { read_npy as readNpy, write_npy as writeNpy } from './core/npy.ts';
export { Detector, type Detection, type DetectOptions, type DetectorOptions } from './vision/detector.ts';
export { Classifier, type ClassifierOptions, type ClassifyOptions, type ClassScore } from './vision/classifier.ts';
export { ImageModel, type ImageRun, type Placement } from './vision/image_model.ts';
export type { DecoderName } from './vision/decoder.ts';
export type { ImageSource, PixelImage } from './vision/image.ts';
export type { PreprocessRecipe } from './vision/recipe.ts';
export type { StageTimes } from './vision/stage.ts';
