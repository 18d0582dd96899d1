// The request that a conversation becomes, the events that become a message, and a stream that survives broken
// connections.
import assert from 'node:assert/strict';
import test from 'node:test';

globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null, setItem() {}, removeItem() {} };
const { apply, liveRate, requestBody, runAnswer } = await import('../../src/page/web/answer.js');
const { events, follow } = await import('../../src/page/web/api.js');
const { addNode, newConversation, root } = await import('../../src/page/web/tree.js');

test('a conversation becomes items', () => {
  const conversation = newConversation({
    system: 's',
    temperature: '0.5',
    top_k: '40',
    seed: '7',
    maxTokens: '100',
    effort: 'low',
    format: 'schema',
    schema: '{"type":"object"}',
    top_p: '',
    tools: '[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"function","name":"g"}]',
  });
  const user = addNode(conversation, root, { role: 'user', content: 'q', files: [{ name: 'a.txt', text: 'A' }] });
  const call = addNode(conversation, user.id, {
    role: 'assistant',
    content: 'w',
    reasoning: 'r',
    calls: [{ id: 'c1', name: 'f', arguments: '{}' }],
  });
  const result = addNode(conversation, call.id, { role: 'tool', callId: 'c1', content: '5' });
  const answer = addNode(conversation, result.id, { role: 'assistant' });
  assert.deepEqual(requestBody(conversation, answer, 'm'), {
    model: 'm',
    stream: true,
    background: true,
    instructions: 's',
    temperature: 0.5,
    top_k: 40,
    seed: 7,
    max_output_tokens: 100,
    reasoning: { effort: 'low' },
    text: { format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } } },
    tools: [
      { type: 'function', name: 'f', parameters: {} },
      { type: 'function', name: 'g' },
    ],
    input: [
      { role: 'user', content: 'a.txt:\n```\nA\n```\n\nq' },
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'r' }] },
      { role: 'assistant', content: 'w' },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: '5' },
    ],
  });
  conversation.settings = {};
  answer.base = { content: 'so far' };
  const continued = requestBody(conversation, answer, 'm');
  assert.equal(continued.continue_final_message, true);
  assert.deepEqual(continued.input.at(-1), { role: 'assistant', content: 'so far' });
});

const stream = (pieces) =>
  new Response(
    new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
        controller.close();
      },
    }),
  );
const event = (number, type, members = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...members, sequence_number: number })}\n\n`;
const collect = async (list) => {
  const all = [];
  for await (const one of list) all.push(one);
  return all;
};

test('events are read however they are cut', async () => {
  const text = `: heartbeat\n\n${event(0, 'a', { x: 'é\n' })}${event(1, 'b')}data: [DONE]\n\n`;
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 3, 7, 1000]) {
    const parts = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(bytes.slice(at, at + size));
    const response = new Response(
      new ReadableStream({
        start(c) {
          parts.forEach((part) => c.enqueue(part));
          c.close();
        },
      }),
    );
    assert.deepEqual(await collect(events(response)), [
      { type: 'a', x: 'é\n', sequence_number: 0 },
      { type: 'b', sequence_number: 1 },
    ]);
  }
});

const created = event(0, 'response.created', { response: { id: 'resp_1', model: 'm' } });
const delta = (number, text) => event(number, 'response.output_text.delta', { delta: text });
const completed = (number, response = {}) =>
  event(number, 'response.completed', {
    response: { id: 'resp_1', status: 'completed', usage: { input_tokens: 3, output_tokens: 2 }, ...response },
  });

test('a broken stream goes on behind the last event', async () => {
  const asked = [];
  const answers = [() => stream([delta(2, 'b'), completed(3)])];
  globalThis.fetch = async (path) => {
    asked.push(path);
    return answers.shift()();
  };
  const all = await collect(follow(undefined, stream([created, delta(1, 'a')])));
  assert.deepEqual(asked, ['/v1/responses/resp_1?stream=true&starting_after=1']);
  assert.deepEqual(
    all.map((one) => one.sequence_number),
    [0, 1, 2, 3],
  );
});

test('one that the server has too much of is asked for whole', async () => {
  const answers = {
    '/v1/responses/resp_1?stream=true': () =>
      new Response('{"error":{"code":"events_not_kept","message":"m"}}', { status: 400 }),
    '/v1/responses/resp_1': () =>
      new Response(
        JSON.stringify({
          id: 'resp_1',
          status: 'completed',
          output: [{ type: 'message', content: [{ text: 'all' }] }],
        }),
      ),
  };
  globalThis.fetch = async (path) => answers[path]();
  const node = { content: '', response: { id: 'resp_1' } };
  await runAnswer({ nodes: {} }, node, 'm', () => {});
  assert.equal(node.content, 'all');
  assert.equal(node.status, 'done');
});

test('an answer of a page before is read from its beginning', async () => {
  globalThis.fetch = async (path, { method }) =>
    method === 'DELETE'
      ? new Response('{}')
      : stream([
          created,
          delta(1, 'Hel'),
          delta(2, 'lo'),
          completed(3, {
            trace: {
              waiting_ms: 1,
              parse_ms: 1,
              template_ms: 1,
              tokenize_ms: 1,
              completions: [{ queue_ms: 2, prompt_ms: 4, generation_ms: 500 }],
            },
          }),
        ]);
  const node = { content: 'He', status: 'running', response: { id: 'resp_1' } };
  const types = [];
  await runAnswer({ nodes: {} }, node, 'm', (_, type) => types.push(type));
  assert.equal(node.content, 'Hello');
  assert.deepEqual(
    { status: node.status, usage: node.usage, rate: node.rate, firstToken: node.firstToken, response: node.response },
    {
      status: 'done',
      usage: { input: 3, output: 2, cached: undefined },
      rate: 2,
      firstToken: 0.01,
      response: undefined,
    },
  );
  assert.equal(types.at(-1), 'end');
  assert.equal(types.length, 5);
});

test('what fails is written into the message', async () => {
  const conversation = newConversation();
  const node = addNode(conversation, root, { role: 'assistant' });
  globalThis.fetch = async () => new Response('{"error":{"message":"too long"}}', { status: 400 });
  await runAnswer(conversation, node, 'm', () => {});
  assert.deepEqual([node.status, node.error], ['failed', 'too long']);
  node.response = { id: 'resp_9' };
  globalThis.fetch = async () => new Response('<html>', { status: 404 });
  await runAnswer(conversation, node, 'm', () => {});
  assert.deepEqual([node.status, node.error], ['failed', 'lost']);
});

test('a server that keeps nothing is asked without the background', async () => {
  const conversation = newConversation();
  const node = addNode(conversation, root, { role: 'assistant' });
  const bodies = [];
  globalThis.fetch = async (path, { method, body }) => {
    if (method !== 'POST') return new Response('{}');
    bodies.push(JSON.parse(body).background);
    return bodies.length === 1
      ? new Response('{"error":{"message":"m","param":"background"}}', { status: 400 })
      : stream([created, delta(1, 'a'), completed(2)]);
  };
  await runAnswer(conversation, node, 'm', () => {});
  assert.deepEqual([bodies, node.content, node.status], [[true, false], 'a', 'done']);
});

test('thoughts and calls', () => {
  const node = { content: '', run: {} };
  const put = (type, members, now) => apply(node, { type, ...members }, now);
  put('response.reasoning_text.delta', { delta: 'hm' }, 0);
  put('response.reasoning_text.done', {}, 1500);
  put('response.output_item.added', { item: { type: 'message' } });
  put('response.output_item.added', { item: { type: 'function_call', call_id: 'c1', name: 'f' } });
  put('response.function_call_arguments.delta', { delta: '{"a"' }, 1600);
  put('response.function_call_arguments.delta', { delta: ':1}' }, 1700);
  put('response.incomplete', { response: { status: 'incomplete' } });
  assert.deepEqual(
    [node.reasoning, node.thoughtSeconds, node.calls, node.status],
    ['hm', 1.5, [{ id: 'c1', name: 'f', arguments: '{"a":1}' }], 'cut'],
  );
  for (const [status, expected] of [
    ['cancelled', 'stopped'],
    ['failed', 'failed'],
    ['completed', 'done'],
  ]) {
    put('response.incomplete', { response: { status, error: status === 'failed' ? { message: 'e' } : null } });
    assert.equal(node.status, expected);
  }
  assert.equal(liveRate({ run: { tokens: 11, first: 0, last: 1000 } }), 10);
  assert.equal(liveRate({}), 0);
});
