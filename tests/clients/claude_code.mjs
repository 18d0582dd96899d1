// Claude Code against a running server: node claude_code.mjs http://127.0.0.1:9001 CLAUDE
// It speaks to a proxy, which shows what it sends and gets, and adds to its requests what makes weft, a model of 8 million
// parameters, play its part: it must call Read for the one file there is, and later answer with a short text.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

const [url, claude] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'claude-'));
const file = join(folder, 'hello.txt');
writeFileSync(file, 'the word is shuttle\n');

const shortText = { type: 'json_schema', schema: { type: 'string', minLength: 4, maxLength: 12 } };
const system = 'You read files and say what is in them. '.repeat(20);
let forced = false; // whether the next request must call Read
let seen = []; // requests, each with the events of its response

function change(body) {
  for (const tool of body.tools ?? [])
    if (tool.name === 'Read')
      tool.input_schema = { type: 'object', properties: { file_path: { const: file } }, required: ['file_path'],
        additionalProperties: false };
  body.temperature = 0;
  if (forced) body.tool_choice = { type: 'tool', name: 'Read', disable_parallel_tool_use: true };
  else body.output_config = { ...body.output_config, format: shortText };
  forced = false;
  return body;
}

const proxy = http.createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const { host, 'content-length': _, 'accept-encoding': __, ...headers } = request.headers;
  const isMessage = request.method === 'POST' && request.url.split('?')[0] === '/v1/messages';
  if (isMessage) text = JSON.stringify(change(JSON.parse(text)));
  const answer = await fetch(url + request.url, { method: request.method, headers, body: text || undefined });
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  const body = await answer.text();
  if (isMessage)
    seen.push({ body: JSON.parse(text), headers: answer.headers, status: answer.status,
      events: body.split('\n').filter((line) => line.startsWith('data: ')).map((line) => JSON.parse(line.slice(6))) });
  response.end(body);
});
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
test.after(() => proxy.close());

function run(prompt, ...more) {
  const env = { PATH: process.env.PATH, HOME: folder, ANTHROPIC_BASE_URL: `http://127.0.0.1:${proxy.address().port}`,
    ANTHROPIC_API_KEY: 'x', ANTHROPIC_MODEL: 'weft', ANTHROPIC_SMALL_FAST_MODEL: 'weft', DISABLE_TELEMETRY: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' };
  // its own system prompt and dozen of tools are 20 000 tokens of weft's vocabulary
  const options = ['--tools', 'Read', '--system-prompt', system, '--output-format', 'json', ...more];
  return new Promise((resolve) => {
    const child = execFile(claude, ['-p', prompt, ...options], { cwd: folder, env, timeout: 500_000 },
      (error, stdout, stderr) => resolve({ code: error ? error.code ?? error.signal : 0, stdout, stderr }));
    child.stdin.end();
  });
}
const usageOf = ({ events }) => events.find((event) => event.type === 'message_delta').usage;
const reused = (usage) => usage.cache_read_input_tokens / (usage.cache_read_input_tokens + usage.input_tokens);

let session;
test('an answer', async () => {
  seen = [];
  const { code, stdout, stderr } = await run('Say hello.');
  assert.equal(code, 0, stderr + stdout);
  const result = JSON.parse(stdout);
  session = result.session_id;
  assert.equal(result.is_error, false);
  assert(result.result.length >= 4, stdout);
  assert.equal(seen.length, 1);
  assert.equal(seen[0].status, 200);
  console.log('ignored:', seen[0].headers.get('x-heddle-ignored'), '\nanswer:', result.result);
});

test('a second turn reuses the prompt', async () => {
  seen = [];
  const { code, stdout, stderr } = await run('And now?', '--resume', session);
  assert.equal(code, 0, stderr + stdout);
  const usage = usageOf(seen[0]);
  console.log('second turn:', JSON.stringify(usage));
  assert(reused(usage) >= 0.9, `${reused(usage)} of the prompt was reused`);
});

test('a tool is called, executed, and its result comes back', async () => {
  seen = [];
  forced = true;
  const { code, stdout, stderr } = await run('What does hello.txt say?');
  assert.equal(code, 0, stderr + stdout);
  assert(seen.length >= 2, `${seen.length} requests`);
  const [first, second] = seen;
  const call = first.events.find((event) => event.content_block?.type === 'tool_use').content_block;
  assert.equal(call.name, 'Read');
  assert.equal(first.events.find((event) => event.type === 'message_delta').delta.stop_reason, 'tool_use');
  const results = second.body.messages.flatMap(({ content }) => Array.isArray(content) ? content : [])
    .filter((block) => block.type === 'tool_result');
  assert.equal(results.length, 1);
  assert.equal(results[0].tool_use_id, call.id);
  assert.match(JSON.stringify(results[0].content), /the word is shuttle/);
  const usage = usageOf(second);
  console.log('after the call:', JSON.stringify(usage), '\nanswer:', JSON.parse(stdout).result);
  assert(reused(usage) >= 0.9, `${reused(usage)} of the prompt was reused`);
});
