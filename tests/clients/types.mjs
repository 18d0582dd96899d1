// Every document and every event that the server sends, held against the types of the official clients by the TypeScript
// compiler: node types.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048 --kv-tokens 4096` with weft, the built-in model.
// The bodies become constants of those types in a file that must compile. A missing member, one of the wrong type and one
// that the type does not have are errors; the last are allowed for the members that heddle adds, and null for one that may be
// absent, as OpenAI's own server writes them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import ts from 'typescript';

const [url, key] = process.argv.slice(2);
// `name`: OpenAI's server sends it with the arguments of a call, and the type has no such member
const added = ['reasoning_content', 'timings', 'name'];

const model = 'weft', user = [{ role: 'user', content: 'Tell me a story.' }];
const parameters = { type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false };
const tool = { type: 'function', function: { name: 'weather', description: 'The weather in a city.', parameters } };
const chat = { model, messages: user, temperature: 0, max_tokens: 12 };
const called = { ...chat, max_tokens: 200, tools: [tool], tool_choice: 'required' };
const text = { model, input: 'Tell me a story.', temperature: 0, max_output_tokens: 20 };
const calling = { ...text, max_output_tokens: 200, tools: [{ type: 'function', name: 'weather', parameters, strict: true }],
  tool_choice: 'required' };
const message = { model, messages: user, temperature: 0, max_tokens: 12 };
const using = { ...message, max_tokens: 200, tools: [{ name: 'weather', input_schema: parameters }], tool_choice: { type: 'any' } };
const local = { model, messages: user, options: { temperature: 0, num_predict: 12 } };

const openai = (name) => ['OpenAI', `OpenAI.${name}`], anthropic = (name) => ['Anthropic', `Anthropic.${name}`];
// [path, body, the type of the document, the type of a stream's event; null: there is none]
const asked = [
  ['/v1/chat/completions', chat, openai('ChatCompletion'), openai('ChatCompletionChunk')],
  ['/v1/chat/completions', { ...chat, logprobs: true, top_logprobs: 2, n: 2, stream_options: { include_usage: true } },
    openai('ChatCompletion'), openai('ChatCompletionChunk')],
  ['/v1/chat/completions', called, openai('ChatCompletion'), openai('ChatCompletionChunk')],
  ['/v1/completions', { model, prompt: 'Once', max_tokens: 5, logprobs: 2 }, openai('Completion'), openai('CompletionChunk')],
  ['/v1/embeddings', { model, input: ['a', 'b'] }, openai('CreateEmbeddingResponse'), null],
  ['/v1/responses', text, openai('Responses.Response'), openai('Responses.ResponseStreamEvent')],
  ['/v1/responses', calling, openai('Responses.Response'), openai('Responses.ResponseStreamEvent')],
  ['/v1/messages', message, anthropic('Message'), anthropic('RawMessageStreamEvent')],
  ['/v1/messages', using, anthropic('Message'), anthropic('RawMessageStreamEvent')],
  ['/v1/messages/count_tokens', { model, messages: user }, anthropic('MessageTokensCount'), null],
];

async function post(path, body) {
  const headers = { 'content-type': 'application/json', 'x-api-key': key, 'anthropic-version': '2023-06-01' };
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const answer = await response.text();
  assert.equal(response.status, 200, answer);
  return answer;
}
// without those that have no type: the end of OpenAI's streams, and Anthropic's pings
const events = (body) => body.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6))
  .filter((event) => event !== '[DONE]' && event !== '{"type":"ping"}');

// output_text of a response is made by the client. A chunk of a completion has no type of its own; until the last, its
// finish_reason is null.
const choice = "Omit<OpenAI.CompletionChoice, 'finish_reason'> & { finish_reason: OpenAI.CompletionChoice['finish_reason'] | null }";
const made = { 'OpenAI.Responses.Response': "Omit<OpenAI.Responses.Response, 'output_text'>",
  'OpenAI.CompletionChunk': `Omit<OpenAI.Completion, 'choices'> & { choices: (${choice})[] }` };

test('every document and event is of the type that the official client has for it', async () => {
  const constants = [];
  for (const [path, body, document, event] of asked) {
    constants.push([made[document[1]] ?? document[1], await post(path, body), path]);
    if (!event) continue;
    const all = events(await post(path, { ...body, stream: true }));
    assert(all.length > 1, path);
    for (const one of all) constants.push([made[event[1]] ?? event[1], one, path]);
  }
  const lines = ["import OpenAI from 'openai';", "import Anthropic from '@anthropic-ai/sdk';", "import type { ChatResponse, GenerateResponse } from 'ollama';"];
  // Ollama's client makes no Date of the time, and its types demand members that its server sends with the last line alone
  const notLast = 'context|done_reason|total_duration|load_duration|prompt_eval_count|prompt_eval_duration|eval_count|eval_duration'
    .split('|').map((name) => `'${name}'`).join(' | ');
  const chatOnly = notLast.replace("'context' | ", '');
  const line = (type, notLast) => `Omit<${type}, 'created_at' | ${notLast}> & Partial<Pick<${type}, ${notLast}>> & { created_at: string }`;
  for (const [path, body, type] of [['/api/chat', local, line('ChatResponse', chatOnly)],
    ['/api/generate', { model, prompt: 'Once', options: local.options }, line('GenerateResponse', notLast)]])
    for (const one of (await post(path, body)).trim().split('\n')) constants.push([type, one, path]);
  constants.forEach(([type, json], i) => lines.push(`export const c${i}: ${type} = ${json};`));
  const first = 3;  // lines before the constants
  fs.writeFileSync('types.ts', lines.join('\n') + '\n');

  const program = ts.createProgram(['types.ts'], { strict: true, noEmit: true, skipLibCheck: true, types: [],
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'] });
  const wrong = [];
  for (const diagnostic of ts.getPreEmitDiagnostics(program)) {
    if (!diagnostic.file?.fileName.endsWith('types.ts')) continue;
    const said = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n');
    const excess = /Object literal may only specify known properties, and '"?([a-z_]+)"?' does not exist/.exec(said);
    if (excess && added.includes(excess[1])) continue;
    if (/^Type 'null' is not assignable to type '[^']* \| undefined'\.$/.test(said)) continue;
    const at = diagnostic.file.getLineAndCharacterOfPosition(diagnostic.start).line;
    wrong.push(`${constants[at - first]?.[2]}: ${said}\n  ${constants[at - first]?.[1].slice(0, 1500)}`);
  }
  assert.deepEqual(wrong.map((text) => text.slice(0, 2000)).slice(0, 20), []);
  console.log(`${constants.length} documents and events`);
});
