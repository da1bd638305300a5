// A real HTTP server on loopback for tests: routes by path, closed with the test.
import { createServer } from 'node:http';

/**
 * @param t node:test context
 * @param {Record<string, (request, response) => void>} routes by path; others answer 404
 * @returns {Promise<string>} its URL, without a slash at the end
 */
export async function listen(t, routes) {
  const server = createServer((request, response) => {
    const route = routes[new URL(request.url, 'http://localhost').pathname];
    if (route) route(request, response);
    else response.writeHead(404).end('not found');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return `http://127.0.0.1:${server.address().port}`;
}
