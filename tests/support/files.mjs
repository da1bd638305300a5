// Temporary folders for tests.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A fresh folder, removed after the test. */
export function temp_folder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'tilekiln-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
