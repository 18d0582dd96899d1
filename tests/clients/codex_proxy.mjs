// Between Codex and the server: makes a model without sense do what a good one would, and writes down what passes.
//   node codex_proxy.mjs PORT http://127.0.0.1:8080 LOG
// Codex leaves it to the model whether a tool is called. Here the first request of a turn is changed to demand a call of
// exec_command (tool_choice), of which the schema allows one command alone; a request that has the result of a call is
// sent with tool_choice auto, as Codex wrote it, and its answer is kept to the schema that `codex exec --output-schema`
// sends. In all requests the temperature is 0, and the same schema stands in the same place, so that the prompts begin
// with the same text. Nothing that the server answers is changed.
import fs from 'node:fs';
import http from 'node:http';

const [port, server, log] = process.argv.slice(2);
const command = 'cat note.txt';

function changed(body) {
  const asked = JSON.parse(body);
  for (const tool of asked.tools)
    if (tool.name === 'exec_command')
      tool.parameters = { type: 'object', properties: { cmd: { type: 'string', enum: [command] } }, required: ['cmd'],
        additionalProperties: false };
  asked.temperature = 0;
  const hasResult = asked.input.some((item) => item.type === 'function_call_output');
  if (!hasResult) asked.tool_choice = { type: 'function', name: 'exec_command' };
  return asked;
}

http
  .createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const isResponse = request.method === 'POST' && request.url === '/v1/responses';
      const body = Buffer.concat(parts).toString();
      const asked = isResponse ? changed(body) : undefined;
      const sent = asked ? JSON.stringify(asked) : body;
      const headers = { ...request.headers, 'content-length': Buffer.byteLength(sent), host: new URL(server).host };
      const options = { method: request.method, headers };
      const onward = http.request(server + request.url, options, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        const events = [];
        answer.on('data', (part) => {
          events.push(part);
          response.write(part);
        });
        answer.on('end', () => {
          response.end();
          fs.appendFileSync(log, JSON.stringify({ url: request.url, status: answer.statusCode,
            ignored: answer.headers['x-heddle-ignored'], asked, events: Buffer.concat(events).toString() }) + '\n');
        });
      });
      onward.setTimeout(0);
      onward.on('error', (error) => response.destroy(error));
      onward.end(sent);
    });
  })
  .listen(Number(port), '127.0.0.1');
