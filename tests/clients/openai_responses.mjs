// OpenAI's own client for JavaScript and its responses: node openai_responses.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048 --kv-tokens 4096` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { checkResponse, checkStream } from './response_events.mjs';

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, timeout: 120_000 });
const model = (await client.models.list()).data[0].id;
const greedy = { model, temperature: 0, max_output_tokens: 24 };
// frequency_penalty: a model that was not trained to write JSON ends white space and strings sooner with it
const terse = { model, temperature: 0, frequency_penalty: 1, max_output_tokens: 250 };
const boat = 'Tell me a story about a boat.';
const weatherOf = z.object({ city: z.enum(['Oslo', 'Paris']), unit: z.enum(['C', 'F']) });
const weatherTool = { type: 'function', name: 'get_weather', description: 'Weather of a city', strict: true,
  parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Oslo', 'Paris'] } }, required: ['city'],
    additionalProperties: false } };

// All events of a stream, and what they come to.
async function streamed(body) {
  const events = [];
  for await (const event of await client.responses.create({ ...body, stream: true })) events.push(event);
  return { events, response: checkStream(events) };
}
const isRefused = (status, param, message) => (error) => {
  assert(error instanceof OpenAI.APIError, `${error}`);
  assert.equal(error.status, status);
  assert.equal(error.param, param);
  assert.match(error.message, message);
  return true;
};

test('models', async () => {
  const [one] = (await client.models.list()).data;
  assert.equal(one.owned_by, 'heddle');
  assert.equal(one.max_model_len, 2048);
  assert(Math.abs(one.created - Date.now() / 1000) < 3600);
});

test('a response', async () => {
  const response = await client.responses.create({ ...greedy, input: boat });
  checkResponse(response);
  assert.equal(response.status, 'incomplete');
  assert.equal(response.incomplete_details.reason, 'max_output_tokens');
  assert.equal(response.usage.output_tokens, 24);
  assert(response.output_text.length > 10);
  assert.equal(response.max_output_tokens, 24);
  // the same prompt as a chat's, and so the same text
  const chat = await client.chat.completions.create({ model, temperature: 0, max_completion_tokens: 24,
    messages: [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: boat }] });
  const same = await client.responses.create({ ...greedy, instructions: 'You tell stories.', input: boat });
  assert.equal(same.output_text, chat.choices[0].message.content);
  assert.equal(same.usage.input_tokens, chat.usage.prompt_tokens);
  const items = [{ role: 'developer', content: 'You tell stories.' },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Tell me a story ' },
      { type: 'input_text', text: 'about a boat.' }] }];
  assert.equal((await client.responses.create({ ...greedy, input: items })).output_text, same.output_text);
  const counted = await client.responses.inputTokens.count({ model, instructions: 'You tell stories.', input: boat });
  assert.equal(counted.input_tokens, same.usage.input_tokens);
});

test('a streamed response', async () => {
  const whole = await client.responses.create({ ...greedy, input: boat });
  const { events, response } = await streamed({ ...greedy, input: boat });
  assert.equal(response.output[0].content[0].text, whole.output_text);
  assert.equal(response.status, 'incomplete');
  assert(events.filter((event) => event.type === 'response.output_text.delta').length > 10);
  const ended = await streamed({ ...greedy, max_output_tokens: 400, input: boat });
  assert.equal(ended.response.status, 'completed');
  assert.equal(ended.events.at(-1).type, 'response.completed');
});

test('a stream, put together by the client', async () => {
  const stream = client.responses.stream({ ...greedy, input: boat });
  let text = '';
  stream.on('response.output_text.delta', (event) => {
    text += event.delta;
    assert.equal(event.snapshot, text);
  });
  const final = await stream.finalResponse();
  assert.equal(final.output_text, text);
  assert.equal(final.output_text, (await client.responses.create({ ...greedy, input: boat })).output_text);
});

test('log-probabilities', async () => {
  const asked = { ...greedy, input: boat, include: ['message.output_text.logprobs'], top_logprobs: 2 };
  const { response } = await streamed(asked);
  const [part] = response.output[0].content;
  assert.equal(part.logprobs.map((one) => one.token).join(''), part.text);
  for (const one of part.logprobs) {
    assert.equal(one.top_logprobs.length, 2);
    assert.equal(one.top_logprobs[0].token, one.token);
  }
  assert.deepEqual((await client.responses.create(asked)).output[0].content[0].logprobs, part.logprobs);
});

test('a tool, there and back', async () => {
  const tools = [weatherTool, { type: 'web_search' }];
  const asked = { ...terse, tools, tool_choice: 'required', parallel_tool_calls: false, input: 'How is the weather?' };
  const first = await client.responses.create(asked);
  checkResponse(first);
  assert.equal(first.status, 'completed');
  const [call] = first.output;
  assert.equal(call.type, 'function_call');
  assert.equal(call.name, 'get_weather');
  assert(['Oslo', 'Paris'].includes(JSON.parse(call.arguments).city));
  const result = { type: 'function_call_output', call_id: call.call_id, output: '12 degrees' };
  // by sending everything again, and by the id of the response
  const input = [{ role: 'user', content: asked.input }, ...first.output, result];
  const again = await client.responses.create({ ...greedy, tools, input });
  const continued = await client.responses.create({ ...greedy, tools, previous_response_id: first.id, input: [result] });
  assert.equal(continued.output_text, again.output_text);
  assert.equal(continued.usage.input_tokens, again.usage.input_tokens);
  assert.equal(continued.previous_response_id, first.id);
  const { events, response } = await streamed(asked);
  assert.equal(response.output[0].arguments, call.arguments);
  assert.notEqual(response.output[0].call_id, call.call_id);
  assert(events.some((event) => event.type === 'response.function_call_arguments.delta'));
});

test('which tool', async () => {
  const other = { ...weatherTool, name: 'get_time' };
  const asked = { ...terse, tools: [weatherTool, other], input: 'What time is it?', parallel_tool_calls: false };
  const named = await client.responses.create({ ...asked, tool_choice: { type: 'function', name: 'get_time' } });
  assert.equal(named.output[0].name, 'get_time');
  const tool_choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'get_weather' }] };
  const allowed = await client.responses.create({ ...asked, tool_choice });
  assert.equal(allowed.output[0].name, 'get_weather');
  // the prompt does not depend on the choice
  assert.equal(allowed.usage.input_tokens, named.usage.input_tokens);
  const none = await client.responses.create({ ...asked, ...greedy, tool_choice: 'none' });
  assert.equal(none.output[0].type, 'message');
});

test('tools of zod, parsed by the client', async () => {
  const tools = [zodResponsesFunction({ name: 'get_weather', parameters: weatherOf })];
  const asked = { ...terse, tools, tool_choice: 'required', parallel_tool_calls: false, input: 'How is it?' };
  const { output } = await client.responses.parse(asked);
  weatherOf.parse(output[0].parsed_arguments);
  const stream = client.responses.stream(asked);
  let pieces = '';
  stream.on('response.function_call_arguments.delta', (event) => (pieces += event.delta));
  const final = await stream.finalResponse();
  assert.equal(final.output[0].arguments, pieces);
  assert.deepEqual(final.output[0].parsed_arguments, output[0].parsed_arguments);
});

test('structured output', async () => {
  const Trip = z.object({ city: z.enum(['Oslo', 'Paris']), days: z.number().int().min(1).max(9) });
  const asked = { ...terse, input: 'Plan a trip.', text: { format: zodTextFormat(Trip, 'trip') } };
  const response = await client.responses.parse(asked);
  assert.equal(response.status, 'completed');
  assert.deepEqual(response.output_parsed, Trip.parse(JSON.parse(response.output_text)));
  assert.equal(response.text.format.type, 'json_schema');
  assert.deepEqual((await client.responses.stream(asked).finalResponse()).output_parsed, response.output_parsed);
  const any = await client.responses.create({ ...terse, input: 'JSON', text: { format: { type: 'json_object' } } });
  assert.match(any.output_text.trimStart(), /^\{/);
});

test('a conversation by ids', async () => {
  const first = await client.responses.create({ ...greedy, input: boat, instructions: 'You tell stories.' });
  const second = await client.responses.create({ ...greedy, input: 'And then?', previous_response_id: first.id });
  // the same as all of it, without the instructions, which are not inherited
  const all = [{ role: 'user', content: boat }, ...first.output, { role: 'user', content: 'And then?' }];
  const whole = await client.responses.create({ ...greedy, input: all });
  assert.equal(second.output_text, whole.output_text);
  assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
  assert.equal(second.instructions, null);
  // by a reference to what was said
  const [said] = first.output;
  const referred = await client.responses.create({ ...greedy,
    input: [{ role: 'user', content: boat }, { type: 'item_reference', id: said.id }, { role: 'user', content: 'And then?' }] });
  assert.equal(referred.output_text, whole.output_text);
  const again = await client.responses.create({ ...greedy, input: all });
  assert(again.usage.input_tokens_details.cached_tokens > 0.5 * again.usage.input_tokens);
});

test('retrieve, input items, delete', async () => {
  const response = await client.responses.create({ ...greedy, input: boat, metadata: { topic: 'boats' } });
  const found = await client.responses.retrieve(response.id);
  assert.deepEqual(found.output, response.output);
  assert.deepEqual(found.metadata, { topic: 'boats' });
  const items = [];
  for await (const item of client.responses.inputItems.list(response.id)) items.push(item);
  assert.equal(items.length, 1);
  assert.deepEqual(items[0].content, [{ type: 'input_text', text: boat }]);
  await assert.rejects(client.responses.cancel(response.id), isRefused(400, 'id', /has ended/));
  await client.responses.delete(response.id);
  await assert.rejects(client.responses.retrieve(response.id), isRefused(404, 'id', new RegExp(response.id)));
  await assert.rejects(client.responses.create({ ...greedy, input: 'x', previous_response_id: response.id }),
    isRefused(400, 'previous_response_id', new RegExp(response.id)));
  const unstored = await client.responses.create({ ...greedy, input: boat, store: false });
  await assert.rejects(client.responses.retrieve(unstored.id), isRefused(404, 'id', /never stored/));
});

test('cancel, from elsewhere', async () => {
  const stream = await client.responses.create({ model, input: boat, stream: true, max_output_tokens: 1800, text: { format: { type: 'json_schema', name: 'long', schema: { type: 'array',
      minItems: 400, items: { type: 'integer', minimum: 100, maximum: 999 } } } } });
  const events = [];
  let cancelled;
  for await (const event of stream) {
    events.push(event);
    if (event.type === 'response.output_text.delta' && !cancelled)
      cancelled = client.responses.cancel(events[0].response.id);
  }
  assert.equal((await cancelled).status, 'cancelled');
  const response = checkStream(events);
  assert.equal(response.status, 'cancelled');
  assert.equal((await client.responses.retrieve(response.id)).status, 'cancelled');
});

test('abort', async () => {
  const stream = await client.responses.create({ ...greedy, max_output_tokens: 400, input: boat, stream: true });
  let id;
  for await (const event of stream) {
    id ??= event.response?.id;
    if (event.type === 'response.output_text.delta') break; // the client aborts
  }
  for (let tries = 0; tries < 100; ++tries) {
    const found = await client.responses.retrieve(id).catch((error) => error);
    if (found.status === 404) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail('the response goes on without a reader');
});

test('in the background, left and found again', async () => {
  const asked = { ...greedy, max_output_tokens: 400, input: boat, background: true };
  const first = [];
  for await (const event of await client.responses.create({ ...asked, stream: true })) {
    first.push(event);
    if (event.type === 'response.output_text.delta') break; // the client aborts
  }
  const id = first[0].response.id, last = first.at(-1).sequence_number;
  const rest = [];
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: last })) rest.push(event);
  assert.equal(rest[0].sequence_number, last + 1);
  const whole = checkStream([...first, ...rest]);
  assert.equal(whole.background, true);
  assert.equal((await client.responses.retrieve(id)).output_text, whole.output.map((item) => item.content[0].text).join(''));
  // without a stream the answer comes at once, and is asked for again
  let polled = await client.responses.create(asked);
  assert.equal(polled.status, 'in_progress');
  for (let tries = 0; tries < 200 && polled.status === 'in_progress'; ++tries) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    polled = await client.responses.retrieve(polled.id);
  }
  checkResponse(polled);
  assert.equal(polled.output[0].content[0].text, whole.output[0].content[0].text);
});

test('truncation', async () => {
  const input = Array.from({ length: 300 }, (_, i) => ({ role: 'user', content: `Number ${i}: there was a boat on the sea.` }));
  await assert.rejects(client.responses.create({ ...greedy, input }), (error) => {
    assert.equal(error.code, 'context_length_exceeded');
    return true;
  });
  // half of the context at most is for the answer
  const asked = { ...greedy, input, truncation: 'auto', max_output_tokens: 1500 };
  const { data, response } = await client.responses.create(asked).withResponse();
  checkResponse(data);
  assert(data.usage.input_tokens <= 1024 && data.usage.input_tokens > 950, `${data.usage.input_tokens}`);
  assert.match(response.headers.get('x-heddle-truncated'), /^messages=\d+$/);
});

test('what is refused, and what is not', async () => {
  const image = [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:', detail: 'auto' }] }];
  await assert.rejects(client.responses.create({ ...greedy, input: image }),
    isRefused(400, 'input[0].content[0].type', /input_image/));
  await assert.rejects(client.responses.create({ ...greedy, input: boat, background: true, store: false }),
    isRefused(400, 'background', /background/));
  await assert.rejects(client.responses.create({ ...greedy, input: boat, stream: true, conversation: 'conv_1' }),
    isRefused(400, 'conversation', /previous_response_id/));
  await assert.rejects(client.responses.create({ ...greedy, input: boat, temperature: 3 }),
    isRefused(400, 'temperature', /0 to 2/));
  await assert.rejects(client.responses.create({ ...greedy, model: 'gpt-4o', input: boat }), isRefused(404, 'model', /gpt-4o/));
  const { response } = await client.responses.create({ ...greedy, input: boat, service_tier: 'flex', client_metadata: { a: 'b' },
    reasoning: { summary: 'auto' }, include: ['reasoning.encrypted_content'], prompt_cache_key: 'k', safety_identifier: 'u',
    tools: [{ type: 'web_search' }, { type: 'custom', name: 'apply_patch' }, { type: 'namespace', name: 'n', tools: [] }],
  }).withResponse();
  assert.equal(response.headers.get('x-heddle-ignored'),
    'tools[].type=web_search, tools[].type=custom, tools[].type=namespace, reasoning.summary, service_tier, client_metadata');
});
