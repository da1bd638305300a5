// How far the int8 model's values are from the float model's, value by value, over a set of samples.
import type { SampledModel } from './sampled_model.ts';
import type { SampleSet } from './samples.ts';

/** How alike two values are over all samples. */
export interface Likeness {
  /** 10 log10(sum f² / sum (f - q)²), in dB; Infinity where they are equal. */
  readonly sqnr_db: number;
  /** sum f q / sqrt(sum f² sum q²). */
  readonly cosine: number;
}

/** Sums over pairs of float and quantised elements, in f64. */
export class LikenessSums {
  #ff = 0;
  #qq = 0;
  #fq = 0;
  #ee = 0;

  add(float: Float32Array, quantized: Float32Array): void {
    let ff = 0;
    let qq = 0;
    let fq = 0;
    let ee = 0;
    for (let i = 0; i < float.length; ++i) {
      const f = float[i]!;
      const q = quantized[i]!;
      ff += f * f;
      qq += q * q;
      fq += f * q;
      ee += (f - q) * (f - q);
    }
    this.#ff += ff;
    this.#qq += qq;
    this.#fq += fq;
    this.#ee += ee;
  }

  get likeness(): Likeness {
    const sqnr_db = this.#ee === 0 ? Infinity : 10 * Math.log10(this.#ff / this.#ee);
    if (this.#ff === 0 || this.#qq === 0) return { sqnr_db, cosine: this.#ee === 0 ? 1 : 0 };
    return { sqnr_db, cosine: Math.min(1, this.#fq / Math.sqrt(this.#ff * this.#qq)) };
  }
}

/** Likeness of all f32 outputs that both models have under the same name, over the samples. */
export async function compare_models(
  float: SampledModel,
  quantized: SampledModel,
  set: SampleSet,
  signal: AbortSignal | undefined,
  on_sample: (done: number, total: number) => void,
): Promise<ReadonlyMap<string, Likeness>> {
  const sums = new Map<string, LikenessSums>();
  let done = 0;
  for await (const sample of set.pass()) {
    await float.run(sample, signal);
    await quantized.run(sample, signal);
    const others = new Map(quantized.values().map((value) => [value.name, value.data]));
    for (const { name, data } of float.values()) {
      const other = others.get(name);
      if (other?.length !== data.length) continue;
      let own = sums.get(name);
      if (!own) sums.set(name, (own = new LikenessSums()));
      own.add(data, other);
    }
    on_sample(++done, set.length ?? 0);
  }
  return new Map([...sums].map(([name, own]) => [name, own.likeness]));
}
