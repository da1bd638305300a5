/** Waits until the workers that the model can have are there: on a busy machine some come after load() has returned. */
export async function all_threads(model, wanted) {
  const is_short = () => typeof wanted === 'number' && model.threads < wanted && model.notes.length === 0;
  for (let i = 0; i < 1000 && is_short(); ++i) await new Promise((resolve) => setTimeout(resolve, 10));
}
