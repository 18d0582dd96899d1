// Ollama's own client for JavaScript against a running server: node ollama.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048 --kv-tokens 4096` with weft, the built-in model.
// Besides what the client hands out, every line that the server has sent is held against the types of the client.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Ollama } from 'ollama';

const [url, apiKey] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${apiKey}` };
const bodies = [];  // {path, request, status, type, headers, text: a promise} of every exchange
async function recorded(to, options) {
  const response = await fetch(to, options);
  const body = options?.body && JSON.parse(options.body);
  const copy = response.clone();
  bodies.push({ path: new URL(to).pathname, request: body, status: response.status, headers: response.headers,
    type: response.headers.get('content-type'), text: copy.text().catch(() => undefined) });
  return response;
}
const client = new Ollama({ host: url, headers, fetch: recorded });
const model = 'weft';
const messages = [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: 'Tell me a story.' }];
const greedy = { temperature: 0, num_predict: 24 };
// a model that was not trained to write JSON ends white space and strings sooner with it
const forJson = { temperature: 0, frequency_penalty: 1, num_predict: 250 };
const collect = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

// The members of each kind of line, from src/interfaces.ts of the client. "?": may be absent.
const time = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
const count = (value) => Number.isInteger(value) && value >= 0;
const string = (value) => typeof value === 'string';
const strings = (value) => Array.isArray(value) && value.every(string);
const object = (members) => (value) => (expectMembers(value, members), true);
const list = (of) => (value) => Array.isArray(value) && value.every(of);
const vector = list((value) => typeof value === 'number');
const toolCall = object({ 'id?': string, function: object({ 'index?': count, name: string,
  arguments: (value) => value !== null && typeof value === 'object' && !Array.isArray(value) }) });
const token = { token: string, logprob: (value) => typeof value === 'number', 'bytes?': list(count) };
const logprobs = list(object({ ...token, 'top_logprobs?': list(object(token)) }));
const message = object({ role: (value) => value === 'assistant', content: string, 'thinking?': string,
  'tool_calls?': list(toolCall) });
const end = { done_reason: (value) => ['stop', 'length'].includes(value), total_duration: count, load_duration: count,
  prompt_eval_count: count, prompt_eval_duration: count, eval_count: count, eval_duration: count };
const head = { model: string, created_at: time, 'logprobs?': logprobs };
const details = object({ parent_model: string, format: string, family: string, families: strings,
  parameter_size: string, quantization_level: string, context_length: count, embedding_length: count });
const listed = { name: string, model: string, size: count, digest: string, details };
const whole = (text) => (line) => ({ ...head, ...text, done: (value) => typeof value === 'boolean',
  ...(line.done ? (['load', 'unload'].includes(line.done_reason) ? { done_reason: string } : end) : {}) });
const shapes = {
  '/api/chat': whole({ message }),
  '/api/generate': whole({ response: string, 'thinking?': string, 'tool_calls?': list(toolCall) }),
  '/api/embed': () => ({ model: string, embeddings: list(vector), total_duration: count, load_duration: count,
    prompt_eval_count: count }),
  '/api/embeddings': () => ({ embedding: vector }),
  '/api/tags': () => ({ models: list(object({ ...listed, modified_at: time, capabilities: strings })) }),
  '/api/ps': () => ({ models: list(object({ ...listed, expires_at: time, size_vram: count, context_length: count })) }),
  '/api/show': () => ({ license: string, modelfile: string, parameters: string, template: string, details,
    model_info: (value) => typeof value === 'object', capabilities: strings, modified_at: time }),
  '/api/version': () => ({ version: string }),
  '/api/pull': () => ({ status: string }),
};
function expectMembers(value, members) {
  assert.equal(typeof value, 'object', JSON.stringify(value));
  for (const [name, isRight] of Object.entries(members)) {
    const key = name.replace('?', '');
    if (name.endsWith('?') && !(key in value)) continue;
    assert(key in value, `${key} is missing in ${JSON.stringify(value)}`);
    assert(isRight(value[key]), `${key} is wrong in ${JSON.stringify(value)}`);
  }
  const known = new Set(Object.keys(members).map((name) => name.replace('?', '')));
  for (const key of Object.keys(value)) assert(known.has(key), `${key} is unknown in ${JSON.stringify(value)}`);
}

test('version, list, show and ps', async () => {
  const { version } = await client.version();
  const [major, minor, patch] = version.split('.').map(Number);
  assert(major > 0 || minor > 13 || (minor === 13 && patch >= 4), version);  // what Codex asks for
  const { models } = await client.list();
  assert.deepEqual(models.map((one) => one.name), ['weft:latest']);
  assert(models[0].size > 1e6);
  assert.equal(models[0].details.format, 'gguf');
  assert.equal(models[0].details.quantization_level, 'Q8_0');
  assert.match(models[0].details.parameter_size, /^[0-9.]+M$/);
  const shown = await client.show({ model: models[0].model });
  const architecture = shown.model_info['general.architecture'];
  assert.equal(shown.model_info[`${architecture}.context_length`], 2048);
  assert(shown.model_info[`${architecture}.embedding_length`] > 0);
  assert(shown.model_info[`${architecture}.block_count`] > 0);
  assert(shown.model_info['general.parameter_count'] > 1e6);
  assert(shown.capabilities.includes('completion'));
  assert(shown.template.includes('messages'));
  const running = (await client.ps()).models[0];
  assert.equal(running.name, 'weft:latest');
  assert.equal(running.size_vram, 0);
  assert(running.size > models[0].size, 'with its KV cache');
  assert(new Date(running.expires_at) > new Date());
});

test('a chat, whole and streamed', async () => {
  const answer = await client.chat({ model, messages, options: greedy });
  assert.equal(answer.model, model);
  assert.equal(answer.done, true);
  assert.equal(answer.done_reason, 'length');
  assert.equal(answer.eval_count, 24);
  assert(answer.message.content.length > 10);
  assert(answer.total_duration >= answer.prompt_eval_duration + answer.eval_duration);
  assert(answer.eval_duration > 0 && answer.prompt_eval_duration > 0);
  const parts = await collect(await client.chat({ model, messages, options: greedy, stream: true }));
  assert(parts.length > 10, 'a reply of 24 tokens comes in many lines');
  assert.equal(parts.map((part) => part.message.content).join(''), answer.message.content);
  const last = parts.at(-1);
  assert.deepEqual(parts.map((part) => part.done), parts.map((part) => part === last));
  assert.equal(last.prompt_eval_count, answer.prompt_eval_count);
  assert.equal(last.eval_count, 24);
  const ended = await client.chat({ model: 'weft:latest', messages, options: { temperature: 0 } });
  assert.equal(ended.done_reason, 'stop');
});

test('options', async () => {
  const ask = async (options) => (await client.chat({ model, messages, options: { ...greedy, ...options } })).message.content;
  const text = await ask({});
  const word = text.split(' ')[3];
  const stopped = await ask({ stop: [word] });
  assert(text.startsWith(stopped) && !stopped.includes(word), `${stopped} / ${text}`);
  const seeded = { temperature: 1.5, seed: 7 };
  assert.equal(await ask(seeded), await ask(seeded));
  assert.notEqual(await ask(seeded), await ask({ ...seeded, seed: 8 }));
  await client.chat({ model, messages, keep_alive: '5m', options: { ...greedy, num_ctx: 32768, num_gpu: 1 } });
  const ignored = bodies.at(-1).headers.get('x-heddle-ignored');
  assert.deepEqual(ignored.split(', ').sort(), ['keep_alive', 'options.num_ctx', 'options.num_gpu']);
});

test('generate', async () => {
  const asked = { model, prompt: 'Tell me a story.', system: 'You tell stories.', options: greedy };
  const { response, eval_count, prompt_eval_count } = await client.generate(asked);
  const chat = await client.chat({ model, messages, options: greedy });
  assert.equal(response, chat.message.content);
  assert.equal(eval_count, 24);
  assert.equal(prompt_eval_count, chat.prompt_eval_count);
  const parts = await collect(await client.generate({ ...asked, stream: true }));
  assert.equal(parts.map((part) => part.response).join(''), response);
  const raw = await client.generate({ model, prompt: 'Once upon a time', raw: true, options: greedy });
  const completion = await (await fetch(`${url}/v1/completions`, { method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once upon a time', temperature: 0, max_tokens: 24 }) })).json();
  assert.equal(raw.response, completion.choices[0].text);
});

test('loading and unloading', async () => {
  assert.equal((await client.generate({ model, prompt: '' })).done_reason, 'load');
  assert.equal((await client.chat({ model, messages: [], keep_alive: 0 })).done_reason, 'unload');
  assert.equal((await client.chat({ model })).done_reason, 'load');
});

test('format', async () => {
  const format = { type: 'object', properties: { city: { enum: ['Oslo', 'Paris'] },
    days: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['city', 'days'], additionalProperties: false };
  for (const stream of [false, true]) {
    const parts = await client.chat({ model, messages, format, options: forJson, stream });
    const text = stream ? (await collect(parts)).map((part) => part.message.content).join('') : parts.message.content;
    const trip = JSON.parse(text);
    assert.deepEqual(Object.keys(trip), ['city', 'days']);
    assert(['Oslo', 'Paris'].includes(trip.city) && trip.days >= 1 && trip.days <= 9, text);
  }
  const { response } = await client.generate({ model, prompt: 'A trip', format, options: forJson });
  assert(['Oslo', 'Paris'].includes(JSON.parse(response).city));
  await assert.rejects(client.chat({ model, messages, format: 'xml' }), /format.*"json"/);
});

const tools = [{ type: 'function', function: { name: 'weather', description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Oslo', 'Paris'] } },
    required: ['city'], additionalProperties: false } } }];

test('tools', async () => {
  // weft is made to call a tool; Ollama itself has no such field
  const asked = { model, messages: [{ role: 'user', content: 'What is the weather?' }], tools, options: forJson,
    tool_choice: 'required' };
  const { message: answer, done_reason, prompt_eval_count } = await client.chat(asked);
  assert.equal(done_reason, 'stop');
  assert(answer.tool_calls.length >= 1);
  for (const call of answer.tool_calls) {
    assert.equal(call.function.name, 'weather');
    assert(['Oslo', 'Paris'].includes(call.function.arguments.city), 'an object');
  }
  const parts = await collect(await client.chat({ ...asked, stream: true }));
  const streamed = parts.flatMap((part) => part.message.tool_calls ?? []);
  assert.deepEqual(streamed.map((call) => call.function), answer.tool_calls.map((call) => call.function));
  // without tool_choice it may answer; what the tool has said is part of the prompt
  const promptWith = async (content) => {
    const results = answer.tool_calls.map(() => ({ role: 'tool', tool_name: 'weather', content }));
    const next = await client.chat({ model, messages: [...asked.messages, answer, ...results], tools, options: greedy });
    assert.equal(next.done, true);
    assert(next.eval_count > 0 && next.eval_count <= 24);
    return next.prompt_eval_count;
  };
  assert(await promptWith('12 degrees') > prompt_eval_count);
  assert(await promptWith('12 degrees and a lot of rain') > await promptWith('12 degrees'));
});

test('log-probabilities', async () => {
  const answer = await client.chat({ model, messages, options: greedy, logprobs: true, top_logprobs: 2 });
  assert.equal(answer.logprobs.map((one) => one.token).join(''), answer.message.content);
  for (const one of answer.logprobs) {
    assert.equal(one.top_logprobs.length, 2);
    assert(one.logprob <= 0);
  }
});

test('embed', async () => {
  const { embeddings, prompt_eval_count } = await client.embed({ model, input: ['a boat', 'the sea'] });
  assert.equal(embeddings.length, 2);
  assert(prompt_eval_count > 2);
  for (const one of embeddings) assert(Math.abs(Math.hypot(...one) - 1) < 1e-4);
  const alone = await client.embed({ model, input: 'a boat' });
  assert(alone.embeddings[0].every((value, i) => Math.abs(value - embeddings[0][i]) < 1e-3));
  const { embedding } = await client.embeddings({ model, prompt: 'a boat' });
  assert.deepEqual(embedding, alone.embeddings[0]);
});

test('abort', async () => {
  const running = async () => {
    const text = await (await fetch(`${url}/metrics`, { headers })).text();
    return Number(text.split('\n').find((line) => line.startsWith('heddle_http_streams_open')).split(' ').at(-1));
  };
  const stream = await client.chat({ model, messages, stream: true, options: { num_predict: 1500, ignore_eos: true } });
  let parts = 0;
  await assert.rejects(async () => {
    for await (const _ of stream) if (++parts === 3) stream.abort();
  }, { name: 'AbortError' });
  for (let tries = 0; tries < 100 && (await running()) > 0; ++tries) await new Promise((go) => setTimeout(go, 100));
  assert.equal(await running(), 0, 'the server has stopped as well');
});

test('errors', async () => {
  const refused = (promise, status, text) => assert.rejects(promise, (error) => {
    assert.equal(error.name, 'ResponseError', String(error));
    assert.equal(error.status_code, status, error.message);
    assert.match(error.error, text);
    return true;
  });
  await refused(client.chat({ model: 'llama3.2', messages }), 404, /model "llama3.2" not found.*"weft"/);
  await refused(client.show({ model: 'llama3.2' }), 404, /not found/);
  await refused(client.chat({ model, messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }), 400, /images/);
  await refused(client.generate({ model, prompt: 'x', suffix: 'y' }), 400, /suffix/);
  await refused(client.generate({ model, prompt: 'x', options: { temperature: 'hot' } }), 400, /options\.temperature/);
  await refused(client.chat({ model, messages, stream: true, think: 'some' }), 400, /think/);
  await refused(client.chat({ model, messages, think: true }), 400, /does not support thinking/);
  await refused(client.create({ model: 'mine', from: model }), 501, /heddle pull and heddle rm/);
  await refused(client.copy({ source: model, destination: 'other' }), 501, /heddle pull and heddle rm/);
  await refused(client.push({ model }), 501, /heddle pull and heddle rm/);
  await refused(client.delete({ model }), 501, /heddle pull and heddle rm/);
  await refused(client.pull({ model: 'llama3.2' }), 501, /heddle pull/);
  await refused(new Ollama({ host: url }).list(), 401, /API key/);
});

test('pull of what is there', async () => {
  assert.deepEqual(await client.pull({ model }), { status: 'success' });
  assert.deepEqual(await collect(await client.pull({ model, stream: true })), [{ status: 'success' }]);
});

test('the root', async () => {
  const response = await fetch(url);
  assert.equal(await response.text(), 'heddle is running');
  assert.equal((await fetch(url, { method: 'HEAD' })).status, 200);
});

test('every line that was sent has the members of its kind', async () => {
  let lines = 0;
  for (const { path, request, status, type, text } of bodies) {
    const body = await text;
    if (body === undefined) continue;  // aborted
    if (status !== 200) {
      expectMembers(JSON.parse(body), { error: string });
      continue;
    }
    assert(shapes[path], path);
    const streamed = request?.stream === true;
    assert.equal(type, streamed ? 'application/x-ndjson' : 'application/json', path);
    if (streamed) assert(body.endsWith('\n'));
    for (const line of streamed ? body.trimEnd().split('\n') : [body]) {
      const value = JSON.parse(line);
      expectMembers(value, shapes[path](value));
      ++lines;
    }
  }
  assert(lines > 100, `${lines} lines`);
});
