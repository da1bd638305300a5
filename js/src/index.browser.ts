// Entry point of browsers and bundlers: artefacts are fetched from beside the module.
import { set_platform } from './core/platform.ts';

// Written out one by one, so that bundlers see each asset.
const kArtefacts: Readonly<Record<string, URL>> = {
  'kiln-simd.wasm': new URL('./kiln-simd.wasm', import.meta.url),
  'kiln-relaxed.wasm': new URL('./kiln-relaxed.wasm', import.meta.url),
  'compiler.wasm': new URL('./compiler.wasm', import.meta.url),
};

set_platform({
  name: 'browser',
  open_artefact: (name) => fetch(kArtefacts[name]!),
  artefact_url: (name) => kArtefacts[name]!.href,
});

export * from './api.ts';
