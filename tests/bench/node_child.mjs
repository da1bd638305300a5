// A Node process with one engine in it: requests come and answers go as messages.
import { node_io } from './node_io.mjs';
import { Session } from './session.mjs';

const session = new Session(node_io);
process.on('message', async ({ method, args }) => {
  try {
    process.send({ result: await session[method](...args) });
  } catch (error) {
    process.send({ error: { name: error.constructor.name, code: error.code, message: error.message } });
  }
});
process.on('disconnect', () => process.exit());
