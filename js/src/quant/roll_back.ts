// Roll-back to float: while the int8 model loses more than the budget, the layer that adds most noise goes back to float;
// then each one that went is tried in int8 again, so that only those stay float that must.
import type { Likeness } from './compare.ts';
import type { Evaluation } from './evaluate.ts';
import type { CompiledLayer, CompilerReport, RollBackStep } from './report.ts';

const kCleanDb = 50; // what a value of 8 bits can have at best, 6.02 * 8 + 1.76: nothing is cleaner than that
const kCulpritDb = 3; // a float layer whose SQNR drops by more has been given bad inputs
const kSingleSteps = 8; // then as many at a time as have gone before
const kMostTriedAgain = 16;

/** How much SQNR each layer loses between its inputs and its output, in dB, the largest first. */
export function own_losses(
  layers: readonly CompiledLayer[],
  likeness: ReadonlyMap<string, Likeness>,
): readonly { readonly layer: CompiledLayer; readonly drop_db: number }[] {
  const db_of = (value: string): number => Math.min(kCleanDb, likeness.get(value)?.sqnr_db ?? kCleanDb);
  return layers
    .flatMap((layer, index) => {
      if (!likeness.has(layer.output)) return [];
      const before = layers[index - 1];
      const inputs = layer.inputs ?? (before ? [before.output] : []);
      return [{ layer, drop_db: Math.min(kCleanDb, ...inputs.map(db_of)) - db_of(layer.output) }];
    })
    .sort((a, b) => b.drop_db - a.drop_db);
}

/**
 * Nodes to roll back, the first the most urgent. A float layer that loses much has inputs whose int8 form is to blame: their
 * makers come in its place.
 */
export function culprits(layers: readonly CompiledLayer[], likeness: ReadonlyMap<string, Likeness>): readonly string[] {
  const makers = new Map(layers.map((layer) => [layer.output, layer]));
  const names = own_losses(layers, likeness).flatMap(({ layer, drop_db }): string[] => {
    if (layer.precision === 'int8') return [layer.name];
    if (drop_db < kCulpritDb) return [];
    const behind = (layer.inputs ?? []).map((input) => makers.get(input));
    return behind.flatMap((maker) => (maker?.precision === 'int8' ? [maker.name] : []));
  });
  const unseen = layers.filter(({ precision }) => precision === 'int8').map(({ name }) => name); // not observed: last
  return [...new Set([...names, ...unseen])];
}

/** An int8 compilation with some nodes kept float. */
export interface Attempt {
  readonly report: CompilerReport;
  readonly evaluation: Evaluation;
}

/** What the roll-back may do. */
export interface RollBackActions<A extends Attempt> {
  /** Compiles and evaluates with these nodes float besides the caller's. */
  readonly attempt: (nodes: readonly string[]) => Promise<A>;
  /** Likeness of all values to the float model's, with these nodes float. */
  readonly compare: (nodes: readonly string[]) => Promise<ReadonlyMap<string, Likeness>>;
}

/** What came of it; `attempt` is undefined if the budget cannot be met in int8. */
export interface RollBackResult<A extends Attempt> {
  readonly attempt: A | undefined;
  readonly nodes: readonly string[];
  readonly steps: readonly RollBackStep[];
}

/** Rolls back from `first`, a compilation with no node rolled back. */
export async function roll_back<A extends Attempt>(
  first: A,
  budget: number,
  { attempt, compare }: RollBackActions<A>,
): Promise<RollBackResult<A>> {
  const steps: RollBackStep[] = [];
  let current = first;
  let nodes: readonly string[] = [];
  while (current.evaluation.loss > budget) {
    const gone = new Set(nodes);
    const candidates = culprits(current.report.layers, await compare(nodes)).filter((name) => !gone.has(name));
    const next = candidates.slice(0, steps.length < kSingleSteps ? 1 : nodes.length);
    if (next.length === 0) return { attempt: undefined, nodes, steps };
    nodes = [...nodes, ...next];
    current = await attempt(nodes);
    steps.push({ nodes: next, to: 'float', loss: current.evaluation.loss, kept: true });
  }
  // The last one was needed: without it the budget was broken.
  for (const node of nodes.length <= kMostTriedAgain ? nodes.slice(0, -1) : []) {
    const fewer = nodes.filter((name) => name !== node);
    const tried = await attempt(fewer);
    const kept = tried.evaluation.loss <= budget;
    steps.push({ nodes: [node], to: 'int8', loss: tried.evaluation.loss, kept });
    if (kept) [current, nodes] = [tried, fewer];
  }
  return { attempt: current, nodes, steps };
}
