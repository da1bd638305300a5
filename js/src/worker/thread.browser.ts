// Entry point of a pool's worker in browsers.
import type { ThreadStart } from './protocol.ts';
import { run_thread } from './thread.ts';

self.onmessage = ({ data }: MessageEvent<ThreadStart>): void => {
  run_thread(data, (news) => self.postMessage(news));
  self.close();
};
