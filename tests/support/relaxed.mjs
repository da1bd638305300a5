// Runs test files once more on the relaxed-SIMD runtime, where this Node has it only behind a flag (Node 20).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { api } from './api.mjs';

const kFlag = '--experimental-wasm-relaxed-simd';

/** Registers a test a file; `files` are paths below the repository. */
export function test_relaxed(files) {
  const skip = api.capabilities().relaxed && 'this Node has relaxed SIMD without a flag: the tests themselves use it';
  for (const file of files) {
    test(`relaxed_SIMD: ${file}`, { skip }, (t) => {
      const env = { ...process.env };
      delete env['NODE_TEST_CONTEXT']; // else the child reports to the parent instead of printing
      const args = [kFlag, '--test-reporter=tap', file];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' });
      const count = (what) => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(stdout)?.[1]);
      t.diagnostic(`${count('pass')} tests passed, ${count('skipped')} skipped`);
      assert.equal(status, 0, stdout + stderr);
      assert.ok(count('pass') + count('skipped') > 0 && count('fail') === 0);
    });
  }
}
