// Progress on standard error: one line that is rewritten on a terminal, a line a stage elsewhere.
import type { Progress } from '../core/source.ts';
import { say } from './command.ts';

const kShown: Readonly<Partial<Record<Progress['stage'], string>>> = {
  calibrate: 'calibrating',
  compare: 'comparing with float',
  evaluate: 'evaluating',
};
const kRedrawMs = 100;

/** Shows the stages that last. */
export class ProgressLine {
  readonly #is_terminal = process.stderr.isTTY;
  readonly #totals: Readonly<Partial<Record<Progress['stage'], number>>>;
  #stage: Progress['stage'] | undefined;
  #loaded = 0;
  #drawn = 0;
  #is_open = false;

  /** @param totals runs of a stage, where `show` is not told */
  constructor(totals: Readonly<Partial<Record<Progress['stage'], number>>>) {
    this.#totals = totals;
  }

  show({ stage, loaded, total: given }: Progress): void {
    const words = kShown[stage];
    const total = given || (this.#totals[stage] ?? 0);
    if (words === undefined) return;
    const is_new = stage !== this.#stage || loaded < this.#loaded;
    this.#stage = stage;
    this.#loaded = loaded;
    if (!this.#is_terminal) {
      if (is_new) say(`${words}${total > 0 ? `: ${total} runs` : ''}`);
      return;
    }
    const now = performance.now();
    if (!is_new && loaded !== total && now - this.#drawn < kRedrawMs) return;
    this.#drawn = now;
    process.stderr.write(`\r\x1b[K${words}: ${loaded}${total > 0 ? ` of ${total} runs` : ' runs'}`);
    this.#is_open = true;
  }

  /** Takes the line away, so that something else can be printed. */
  clear(): void {
    if (this.#is_open) process.stderr.write('\r\x1b[K');
    this.#is_open = false;
  }
}
