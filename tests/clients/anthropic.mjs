// Anthropic's own client for JavaScript against a running server: node anthropic.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import Anthropic, { APIUserAbortError, AuthenticationError, BadRequestError, NotFoundError }
  from '@anthropic-ai/sdk';

const [url, apiKey] = process.argv.slice(2);
const client = new Anthropic({ apiKey, baseURL: url, maxRetries: 0, timeout: 120_000 });
const messages = [{ role: 'user', content: 'Tell me a story about a boat.' }];
const greedy = { model: 'weft', max_tokens: 24, temperature: 0, system: 'You tell stories.', messages };

test('models', async () => {
  const list = await client.models.list({ limit: 1000 });
  assert.equal(list.data.length, 1);
  const [model] = list.data;
  assert.equal(model.type, 'model');
  assert.equal(model.id, 'weft');
  assert(Math.abs(new Date(model.created_at) - Date.now()) < 600_000, model.created_at);
  assert.equal(model.max_input_tokens, 2048);
  assert.deepEqual(await client.models.retrieve('weft'), model);
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  assert.deepEqual(ids, ['weft'], 'pages end');
});

test('a message', async () => {
  const message = await client.messages.create(greedy);
  assert.match(message.id, /^msg_/);
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.equal(message.model, 'weft');
  assert.equal(message.content.length, 1);
  assert.equal(message.content[0].type, 'text');
  assert(message.content[0].text.length > 10);
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.stop_sequence, null);
  assert.equal(message.usage.output_tokens, 24);
  assert.match(message._request_id, /^req-/);
  const { input_tokens } = await client.messages.countTokens({ model: 'weft', system: greedy.system, messages });
  assert.equal(message.usage.input_tokens + message.usage.cache_read_input_tokens, input_tokens);
});

test('a streamed message', async () => {
  const whole = await client.messages.create(greedy);
  const types = [];
  const stream = client.messages.stream(greedy).on('streamEvent', (event) => types.push(event.type));
  const message = await stream.finalMessage();
  assert.deepEqual(message.content, whole.content);
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.usage.output_tokens, 24);
  assert.equal(await stream.finalText(), whole.content[0].text);
  assert.equal(types[0], 'message_start');
  assert.equal(types[1], 'content_block_start');
  assert(types.filter((type) => type === 'content_block_delta').length > 10, 'an answer of 24 tokens comes in pieces');
  assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
  const events = [];
  for await (const event of await client.messages.create({ ...greedy, stream: true })) events.push(event);
  assert.deepEqual(events.map((event) => event.type), types);
});

test('a conversation, with blocks and cache_control', async () => {
  const cache_control = { type: 'ephemeral' };
  const first = await client.messages.create({ ...greedy, system: [{ type: 'text', text: 'You tell stories.', cache_control }],
    max_tokens: 60 });
  const next = [...messages, { role: 'assistant', content: first.content },
    { role: 'user', content: [{ type: 'text', text: 'And then?', cache_control }] }];
  const second = await client.messages.create({ ...greedy, messages: next });
  const { input_tokens, cache_read_input_tokens } = second.usage;
  assert(cache_read_input_tokens > input_tokens, JSON.stringify(second.usage));
});

test('stop sequences', async () => {
  const message = await client.messages.create({ ...greedy, max_tokens: 200, stop_sequences: ['never said', '.'] });
  assert.equal(message.stop_reason, 'stop_sequence');
  assert.equal(message.stop_sequence, '.');
  assert(!message.content[0].text.includes('.'));
});

const weather = { name: 'get_weather', description: 'Weather of a city', input_schema: { type: 'object',
  properties: { city: { type: 'string', enum: ['Oslo', 'Paris'] }, unit: { type: 'string', enum: ['C', 'F'] } },
  required: ['city', 'unit'], additionalProperties: false } };
const other = { name: 'other', input_schema: { type: 'object', properties: {} } };
// frequency_penalty: a model that was not trained to write JSON ends white space and strings sooner with it
const called = { ...greedy, max_tokens: 250, frequency_penalty: 1, messages: [{ role: 'user', content: 'Weather?' }],
  tools: [weather, other, { type: 'web_search_20250305', name: 'web_search' }] };

for (const choice of [{ type: 'tool', name: 'get_weather' }, { type: 'any' }])
  test(`a tool, by ${choice.type}`, async () => {
    const asked = { ...called, tool_choice: { ...choice, disable_parallel_tool_use: true } };
    const { data: message, response } = await client.messages.create(asked).withResponse();
    assert.equal(response.headers.get('x-heddle-ignored'), 'tools[].web_search_20250305');
    assert.equal(message.stop_reason, 'tool_use');
    const uses = message.content.filter((block) => block.type === 'tool_use');
    assert.equal(uses.length, 1);
    const [use] = uses;
    if (choice.name) assert.equal(use.name, choice.name);
    if (use.name === 'get_weather') {
      assert(['Oslo', 'Paris'].includes(use.input.city), JSON.stringify(use.input));
      assert(['C', 'F'].includes(use.input.unit), JSON.stringify(use.input));
    }
    const inputs = [];
    const stream = client.messages.stream(asked).on('inputJson', (piece) => inputs.push(piece));
    const streamed = (await stream.finalMessage()).content.find((block) => block.type === 'tool_use');
    assert.deepEqual(streamed.input, use.input);
    assert.notEqual(streamed.id, use.id);
    assert.deepEqual(JSON.parse(inputs.join('')), use.input);
    const result = { type: 'tool_result', tool_use_id: use.id, content: [{ type: 'text', text: '12' }] };
    const behind = [...called.messages, { role: 'assistant', content: message.content }, { role: 'user', content: [result] }];
    const last = await client.messages.create({ ...called, messages: behind, tool_choice: { type: 'none' } });
    assert.equal(last.content[0].type, 'text');
    assert(last.usage.input_tokens + last.usage.cache_read_input_tokens > 0);
  });

test('output that a schema describes', async () => {
  const schema = { type: 'object', properties: { city: { enum: ['Oslo', 'Paris'] }, days: { type: 'integer', minimum: 1,
    maximum: 9 } }, required: ['city', 'days'], additionalProperties: false };
  const message = await client.messages.create({ ...called, tools: undefined,
    output_config: { format: { type: 'json_schema', schema } } });
  assert.equal(message.stop_reason, 'end_turn');
  const trip = JSON.parse(message.content[0].text);
  assert(['Oslo', 'Paris'].includes(trip.city));
  assert(Number.isInteger(trip.days));
});

test('fields of newer clients', async () => {
  const { response } = await client.beta.messages.create({ ...greedy, betas: ['context-management-2025-06-27'],
    thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'high' }, metadata: { user_id: 'u' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }, service_tier: 'auto' })
    .withResponse();
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('x-heddle-ignored'), 'context_management, service_tier');
});

test('errors', async () => {
  const rejects = (body, type, pattern, status) =>
    assert.rejects(client.messages.create({ ...greedy, ...body }), (error) => {
      assert(error instanceof type, String(error));
      assert.equal(error.status, status);
      assert.equal(error.error.type, 'error');
      assert.match(error.error.error.message, pattern);
      assert.equal(error.requestID, error.error.request_id);
      return true;
    });
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  await rejects({ messages: [{ role: 'user', content: [image] }] }, BadRequestError, /messages\[0\].*"image"/, 400);
  await rejects({ messages: [{ role: 'user', content: 'boat '.repeat(3000) }] }, BadRequestError,
    /^prompt is too long: \d+ tokens > 2048 maximum$/, 400);
  await rejects({ temperature: 7 }, BadRequestError, /temperature/, 400);
  await rejects({ model: 'claude-opus-5-5' }, NotFoundError, /claude-opus-5-5/, 404);
  await rejects({ temperature: 7, stream: true }, BadRequestError, /temperature/, 400);
  const stranger = new Anthropic({ apiKey: 'wrong', baseURL: url, maxRetries: 0 });
  await assert.rejects(stranger.messages.create(greedy), AuthenticationError);
  await assert.rejects(stranger.models.list(), AuthenticationError);
  await assert.rejects(client.models.retrieve('gpt'), NotFoundError);
  const token = new Anthropic({ authToken: apiKey, apiKey: null, baseURL: url, maxRetries: 0 });
  assert.equal((await token.messages.create(greedy)).stop_reason, 'max_tokens', 'by Authorization: Bearer');
});

test('an abort', async () => {
  const stream = client.messages.stream({ ...greedy, max_tokens: 1500 });
  await assert.rejects(async () => {
    for await (const event of stream) if (event.type === 'content_block_delta') stream.abort();
  }, APIUserAbortError);
  const message = await client.messages.create(greedy);
  assert.equal(message.usage.output_tokens, 24, 'the server goes on');
});
