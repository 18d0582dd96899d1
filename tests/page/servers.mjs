// Servers for the browser: the program itself, and one before it whose model answers what a test wants.
import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import http from 'node:http';

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Server {
  static async start(program, folder, name, options) {
    const server = new Server();
    const log = createWriteStream(`${folder}/${name}.log`);
    server.child = spawn(program, ['serve', '--port', '0', '--device', 'cpu', '--no-log', ...options], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [server.child.stdout, server.child.stderr])
      stream.on('data', (data) => {
        output += data;
        log.write(data);
      });
    server.ended = new Promise((resolve) => server.child.on('exit', resolve));
    for (let i = 0; i < 600 && !server.url; ++i) {
      await wait(50);
      const found = /https?:\/\/[\d.]+:\d+/.exec(output);
      if (!found) continue;
      const ready = await fetch(`${found[0]}/health/ready`).catch(() => ({}));
      if (ready.ok) server.url = found[0];
    }
    if (!server.url) throw new Error(`the server did not start: ${output}`);
    return server;
  }
  async stop() {
    this.child.kill('SIGTERM');
    await Promise.race([this.ended, wait(3000).then(() => this.child.kill('SIGKILL'))]);
    return this.ended;
  }
}

// Passes everything on to `url` but responses, which have the pieces of text that `pieces(body)` returns. `models`:
// instead of the server's own.
export function scripted(url, pieces, models) {
  let stored = '';
  const events = (list) => {
    let number = 0;
    const event = (type, members) =>
      `event: ${type}\ndata: ${JSON.stringify({ type, ...members, sequence_number: number++ })}\n\n`;
    const response = {
      id: 'resp_1',
      model: 'weft',
      status: 'completed',
      usage: { input_tokens: 20, output_tokens: 300 },
    };
    return [
      event('response.created', { response }),
      ...list.map(([type, members]) => event(type, members)),
      event('response.completed', { response }),
    ].join('');
  };
  const server = http.createServer(async (request, response) => {
    if (request.url.startsWith('/v1/responses')) {
      let body = '';
      for await (const part of request) body += part;
      if (request.method === 'POST') stored = events(pieces(body));
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      return response.end(request.method === 'DELETE' ? '{}' : stored);
    }
    if (models && request.url === '/v1/models') return response.end(JSON.stringify({ object: 'list', data: models }));
    const from = await fetch(url + request.url, { headers: { accept: request.headers.accept || '*/*' } });
    response.writeHead(
      from.status,
      Object.fromEntries(
        [...from.headers].filter(([name]) => !['content-length', 'transfer-encoding', 'connection'].includes(name)),
      ),
    );
    return response.end(Buffer.from(await from.arrayBuffer()));
  });
  server.unref();
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}`,
        stop: () => server.closeAllConnections() || server.close(),
      }),
    ),
  );
}
