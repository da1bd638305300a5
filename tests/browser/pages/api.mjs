// The package in a page, as a plain module script imports it; tests reach it as window.api.
import * as api from '/dist/index.js';
import { all_threads } from './all_threads.mjs';

window.api = api;
window.all_threads = all_threads;
window.fetch_bytes = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

/** Bytes of a typed array as base64, to hand to the test exactly. */
window.to_base64 = ({ buffer, byteOffset, byteLength }) => {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
};
window.api_ready = true;
