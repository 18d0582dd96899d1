// OpenAI's own client for JavaScript against a running server: node openai.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --max-queue 8 --kv-tokens 1024` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, timeout: 120_000 });
const model = (await client.models.list()).data[0].id;

// For paths that OpenAI's client does not have.
async function post(path, body) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${apiKey}` },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
  return response.json();
}
const tokenize = async (content, add_special) => (await post('/tokenize', { content, add_special })).tokens;
async function metric(name) {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${apiKey}` } });
  const line = (await response.text()).split('\n').find((one) => one.startsWith(name) && !one.startsWith('#'));
  assert(line, `there is no ${name} among the metrics`);
  return Number(line.split(' ').at(-1));
}
async function until(what, isSo) {
  for (let tries = 0; tries < 100; ++tries) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`waited 10 seconds: ${what}`);
}

const messages = [
  { role: 'system', content: 'You tell stories.' },
  { role: 'user', content: [{ type: 'text', text: 'Tell me a story about ' }, { type: 'text', text: 'a boat.' }] },
];
const greedy = { model, messages, temperature: 0, max_completion_tokens: 24 };
const story = { model, prompt: 'Once upon a time', temperature: 0, max_tokens: 12 };
const range = (count) => [...Array(count).keys()];
const near = (found, expected, bound, what) =>
  assert(Math.abs(found - expected) <= bound, `${what}: expected ${expected}, found ${found}`);

test('models', async () => {
  const list = await client.models.list();
  assert.equal(list.data.length, 1);
  assert.equal(list.data[0].object, 'model');
  assert.deepEqual(await client.models.retrieve(model), list.data[0]);
});

test('a chat', async () => {
  const answer = await client.chat.completions.create(greedy);
  assert.equal(answer.object, 'chat.completion');
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.model, model);
  near(answer.created, Date.now() / 1000, 120, 'created');
  assert.equal(answer.choices.length, 1);
  const [choice] = answer.choices;
  assert.equal(choice.index, 0);
  assert.equal(choice.message.role, 'assistant');
  assert.equal(choice.message.refusal, null);
  assert.equal(choice.logprobs, null);
  assert(choice.message.content.length > 10);
  const { prompt } = await post('/apply-template', { messages });
  assert.equal(answer.usage.prompt_tokens, (await tokenize(prompt, false)).length);
  assert.equal(answer.usage.completion_tokens, 24);
  assert.equal(choice.finish_reason, 'length');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 24);
  const again = await client.chat.completions.create(greedy);
  assert.equal(again.choices[0].message.content, choice.message.content);
  assert.notEqual(again.id, answer.id);
});

test('the prefix cache', async () => {
  const long = { ...story, prompt: 'There was a boat on the sea. '.repeat(12) };
  const cached = async (more) => {
    const { choices, usage } = await client.completions.create({ ...long, ...more });
    return [choices[0].text, usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens];
  };
  const [text] = await cached({});
  const [again, reused, all] = await cached({});
  assert.equal(again, text);
  assert(reused > 0 && reused < all, `${reused} of ${all}`);
  assert.deepEqual(await cached({ cache_prompt: false }), [text, 0, all]);
});

test('an end token', async () => {
  const answer = await client.chat.completions.create({ ...greedy, max_completion_tokens: 400 });
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert(answer.usage.completion_tokens < 400);
  assert(!answer.choices[0].message.content.includes('<|'), 'the end token is not part of the reply');
  const more = await client.chat.completions.create({
    ...greedy,
    max_completion_tokens: answer.usage.completion_tokens + 8,
    ignore_eos: true,
  });
  assert.equal(more.choices[0].finish_reason, 'length');
});

test('a streamed chat', async () => {
  const whole = await client.chat.completions.create(greedy);
  const stream = await client.chat.completions.create({
    ...greedy,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  for (const chunk of chunks) assert.equal(chunk.object, 'chat.completion.chunk');
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, 24);
  assert.equal(last.usage.prompt_tokens, whole.usage.prompt_tokens);
  for (const chunk of chunks) assert.equal(chunk.usage, null);
  assert(chunks.length > 10, 'a reply of 24 tokens comes in many chunks');
  const text = chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('');
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(
    chunks.map((chunk) => chunk.choices[0].finish_reason).filter((reason) => reason),
    ['length'],
  );
});

test('a streamed chat, put together by the client', async () => {
  const whole = await client.chat.completions.create({ ...greedy, logprobs: true, top_logprobs: 2 });
  const runner = client.chat.completions.stream({ ...greedy, logprobs: true, top_logprobs: 2 });
  const put = await runner.finalChatCompletion();
  assert.equal(put.choices[0].message.content, whole.choices[0].message.content);
  assert.deepEqual(put.choices[0].logprobs.content, whole.choices[0].logprobs.content);
});

test('stop strings', async () => {
  const whole = (await client.chat.completions.create(greedy)).choices[0].message.content;
  const stop = whole.slice(15, 18);
  const before = whole.slice(0, whole.indexOf(stop));
  for (const stream of [false, true]) {
    const answer = await client.chat.completions.create({ ...greedy, stop: ['never said', stop], stream });
    if (!stream) {
      assert.equal(answer.choices[0].message.content, before);
      assert.equal(answer.choices[0].finish_reason, 'stop');
      continue;
    }
    let text = '';
    let reason = null;
    for await (const { choices } of answer) {
      text += choices[0].delta.content ?? '';
      reason = choices[0].finish_reason ?? reason;
    }
    assert.equal(text, before);
    assert.equal(reason, 'stop');
  }
});

test('several completions, and seeds', async () => {
  const drawn = { ...greedy, temperature: 1, seed: 7 };
  const three = await client.chat.completions.create({ ...drawn, n: 3 });
  assert.deepEqual(three.choices.map((choice) => choice.index), [0, 1, 2]);
  for (const index of range(3)) {
    const one = await client.chat.completions.create({ ...drawn, seed: 7 + index });
    assert.equal(three.choices[index].message.content, one.choices[0].message.content);
  }
  assert.notEqual(three.choices[0].message.content, three.choices[1].message.content);
  const texts = ['', '', ''];
  for await (const chunk of await client.chat.completions.create({ ...drawn, n: 3, stream: true }))
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? '';
  assert.deepEqual(texts, three.choices.map((choice) => choice.message.content));
});

test('log-probabilities of a chat', async () => {
  const answer = await client.chat.completions.create({ ...greedy, logprobs: true, top_logprobs: 5 });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, answer.usage.completion_tokens);
  const bytes = Buffer.from(content.flatMap((token) => token.bytes));
  assert.equal(bytes.toString('utf8'), answer.choices[0].message.content);
  for (const token of content) {
    assert.equal(token.top_logprobs.length, 5);
    assert.deepEqual([token.token, token.logprob], [token.top_logprobs[0].token, token.top_logprobs[0].logprob]);
    const chances = token.top_logprobs.map((top) => top.logprob);
    assert.deepEqual(chances, [...chances].sort((a, b) => b - a));
    const sum = chances.reduce((all, one) => all + Math.exp(one), 0);
    assert(sum > 0 && sum <= 1.0001, `probabilities come to ${sum}`);
  }
});

test('biases', async () => {
  const plain = await client.completions.create({ ...story, max_tokens: 1, logprobs: 1 });
  const [id] = await tokenize(plain.choices[0].text, false);
  const other = await client.completions.create({ ...story, max_tokens: 1, logit_bias: { [id]: -100 } });
  assert.notEqual(other.choices[0].text, plain.choices[0].text);
});

test('completions', async () => {
  const one = await client.completions.create(story);
  assert.equal(one.object, 'text_completion');
  assert.match(one.id, /^cmpl-/);
  assert.equal(one.usage.completion_tokens, 12);
  assert.equal(one.choices[0].finish_reason, 'length');
  const ids = await tokenize(story.prompt, true);
  assert.equal(one.usage.prompt_tokens, ids.length);
  const text = one.choices[0].text;
  assert.equal((await client.completions.create({ ...story, prompt: ids })).choices[0].text, text);

  const other = await client.completions.create({ ...story, prompt: 'The boat' });
  const both = await client.completions.create({ ...story, prompt: [story.prompt, 'The boat'] });
  assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1]);
  assert.deepEqual(both.choices.map((choice) => choice.text), [text, other.choices[0].text]);
  assert.equal(both.usage.completion_tokens, 24);
  const lists = [ids, await tokenize('The boat', true)];
  const coded = await client.completions.create({ ...story, prompt: lists });
  assert.deepEqual(coded.choices.map((choice) => choice.text), [text, other.choices[0].text]);

  let streamed = '';
  for await (const chunk of await client.completions.create({ ...story, stream: true }))
    streamed += chunk.choices[0].text;
  assert.equal(streamed, text);
  const echoed = await client.completions.create({ ...story, echo: true });
  assert.equal(echoed.choices[0].text, story.prompt + text);
});

test('log-probabilities of a prompt', async () => {
  const made = await client.completions.create({ ...story, logprobs: 2 });
  const { logprobs } = made.choices[0];
  assert.equal(logprobs.tokens.join(''), made.choices[0].text);
  assert.equal(logprobs.tokens.length, 12);
  // the completion as part of the prompt, as evaluation harnesses do it
  const text = story.prompt + made.choices[0].text;
  const read = await client.completions.create({ ...story, prompt: text, echo: true, max_tokens: 0, logprobs: 2 });
  const [choice] = read.choices;
  assert.equal(choice.text, text);
  assert.equal(read.usage.completion_tokens, 0);
  const { tokens, token_logprobs, top_logprobs, text_offset } = choice.logprobs;
  for (const list of [tokens, token_logprobs, top_logprobs, text_offset])
    assert.equal(list.length, read.usage.prompt_tokens);
  assert.equal(token_logprobs[0], null);
  assert.equal(top_logprobs[0], null);
  assert(token_logprobs.slice(1).every((one) => one <= 0));
  const tail = -logprobs.tokens.length;
  assert.deepEqual(tokens.slice(tail), logprobs.tokens);
  for (const [index, token] of tokens.slice(tail).entries()) {
    const at = tokens.length + tail + index;
    near(token_logprobs[at], logprobs.token_logprobs[index], 0.05, `log-probability of ${JSON.stringify(token)}`);
    assert.equal(text.slice(text_offset[at], text_offset[at] + token.length), token);
    // greedy: what was taken is the most likely one, to the last digit
    assert.equal(Math.max(...Object.values(logprobs.top_logprobs[index])), logprobs.token_logprobs[index]);
  }
});

test('the best of several', async () => {
  const drawn = { ...story, temperature: 1, seed: 3, logprobs: 0 };
  const mean = (choice) => {
    const chances = choice.logprobs.token_logprobs;
    return chances.reduce((all, one) => all + one, 0) / chances.length;
  };
  const all = await client.completions.create({ ...drawn, n: 4 });
  const best = await client.completions.create({ ...drawn, n: 1, best_of: 4 });
  assert.equal(best.choices.length, 1);
  near(mean(best.choices[0]), Math.max(...all.choices.map(mean)), 1e-4, 'mean log-probability');
  assert.equal(best.usage.completion_tokens, all.usage.completion_tokens);
});

test('embeddings', async () => {
  const input = ['A boat on the sea.', 'A ship on the ocean.', 'Seven apples.'];
  // without a word the client asks for base64 and reads it
  const coded = await client.embeddings.create({ model, input });
  const plain = await client.embeddings.create({ model, input, encoding_format: 'float' });
  assert.equal(plain.object, 'list');
  assert.deepEqual(plain.data.map((one) => one.index), [0, 1, 2]);
  for (const index of range(3)) {
    const vector = plain.data[index].embedding;
    assert.deepEqual([...coded.data[index].embedding].map(Math.fround), vector.map(Math.fround));
    near(Math.hypot(...vector), 1, 1e-4, 'length');
  }
  assert.equal(plain.usage.total_tokens, plain.usage.prompt_tokens);
  const tokens = await Promise.all(input.map((text) => tokenize(text, true)));
  assert.equal(plain.usage.prompt_tokens, tokens.flat().length);
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const alone = await client.embeddings.create({ model, input: tokens[1], encoding_format: 'float' });
  near(dot(alone.data[0].embedding, plain.data[1].embedding), 1, 1e-3, 'cosine of the same text');
  assert(Math.abs(dot(plain.data[0].embedding, plain.data[2].embedding)) < 0.9999);
});

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 20 }, unit: { enum: ['C', 'F'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
};
const expectWeather = (call) => {
  assert.equal(call.type, 'function');
  assert.equal(call.function.name, 'get_weather');
  const { city, unit, ...others } = JSON.parse(call.function.arguments);
  assert(typeof city === 'string' && [...city].length <= 20 && ['C', 'F'].includes(unit), call.function.arguments);
  assert.deepEqual(others, {});
};

test('tool calls', async () => {
  const asked = { ...greedy, tools: [weather], tool_choice: 'required', parallel_tool_calls: false,
    max_completion_tokens: 200 };
  const [choice] = (await client.chat.completions.create(asked)).choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  assert.equal(choice.message.tool_calls.length, 1);
  const [call] = choice.message.tool_calls;
  expectWeather(call);
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
  assert.equal(streamed.choices[0].message.tool_calls.length, 1);
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const behind = [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: '12 C' }];
  const next = await client.chat.completions.create({ ...asked, messages: behind, tool_choice: 'none' });
  assert.equal(next.choices[0].message.tool_calls, undefined);
  assert(next.choices[0].message.content.length > 0);
});

test('schemas', async () => {
  const schema = { ...weather.function.parameters, properties: { ...weather.function.parameters.properties,
    days: { type: 'array', items: { type: 'integer', minimum: 1, maximum: 9 }, minItems: 2, maxItems: 3 } },
    required: ['city', 'unit', 'days'] };
  const format = { type: 'json_schema', json_schema: { name: 'forecast', strict: true, schema } };
  for (const temperature of [0, 1.5]) {
    const asked = { ...greedy, temperature, seed: 7, response_format: format, max_completion_tokens: 400 };
    const [choice] = (await client.chat.completions.create(asked)).choices;
    assert.equal(choice.finish_reason, 'stop', choice.message.content);
    const { city, unit, days } = JSON.parse(choice.message.content);
    assert(typeof city === 'string' && ['C', 'F'].includes(unit), choice.message.content);
    assert(days.length >= 2 && days.length <= 3 && days.every((d) => Number.isInteger(d) && d >= 1 && d <= 9));
  }
});

const refused = (request, kind, fields) =>
  assert.rejects(request, (error) => {
    assert(error instanceof kind, `expected ${kind.name}, found ${error}`);
    for (const [name, value] of Object.entries(fields)) assert.equal(error[name], value, error.message);
    assert(error.message.length > 10);
    return true;
  });

test('bad requests', async () => {
  const bad = (fields, param, code) =>
    refused(client.chat.completions.create({ ...greedy, ...fields }), OpenAI.BadRequestError, {
      status: 400,
      type: 'invalid_request_error',
      param,
      code,
    });
  await bad({ temperature: 3 }, 'temperature', 'decimal_above_max_value');
  await bad({ temperature: 'hot' }, 'temperature', 'invalid_type');
  await bad({ messages: [] }, 'messages', 'empty_array');
  await bad({ messages: undefined }, 'messages', 'missing_required_parameter');
  await bad({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'messages[0].content[0].type',
    'unsupported_value');
  await bad({ tools: [{ type: 'function', function: { name: 'f g' } }] }, 'tools[0].function.name', 'invalid_value');
  await bad({ tool_choice: 'always', tools: [weather] }, 'tool_choice', 'invalid_value');
  await bad({ response_format: { type: 'yaml' } }, 'response_format.type', 'invalid_value');
  const notKept = { name: 'a', schema: { type: 'object', unevaluatedProperties: false } };
  await bad({ response_format: { type: 'json_schema', json_schema: notKept } },
    'response_format.json_schema.schema', 'invalid_value');
  await bad({ temperature: 3, stream: true }, 'temperature', 'decimal_above_max_value');
  const long = [{ role: 'user', content: 'boat '.repeat(3000) }];
  await bad({ messages: long }, 'messages', 'context_length_exceeded');
});

test('unknown models and paths', async () => {
  await refused(client.chat.completions.create({ ...greedy, model: 'gpt-4o' }), OpenAI.NotFoundError, {
    status: 404,
    code: 'model_not_found',
    param: 'model',
  });
  await refused(client.models.retrieve('gpt-4o'), OpenAI.NotFoundError, { code: 'model_not_found' });
  await refused(client.images.generate({ prompt: 'a boat' }), OpenAI.NotFoundError, { code: 'unknown_url' });
});

test('keys', async () => {
  const stranger = new OpenAI({ apiKey: `${apiKey}x`, baseURL: `${url}/v1`, maxRetries: 0 });
  await refused(stranger.chat.completions.create(greedy), OpenAI.AuthenticationError, {
    status: 401,
    code: 'invalid_api_key',
  });
  await refused(stranger.models.list(), OpenAI.AuthenticationError, { status: 401 });
});

test('a client that disconnects halfway', async () => {
  const long = { ...greedy, max_completion_tokens: 400, ignore_eos: true, stream: true };
  for (const way of ['abort', 'break']) {
    const stream = await client.chat.completions.create(long);
    let count = 0;
    for await (const chunk of stream) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      if (++count < 5) continue;
      if (way === 'break') break;
      stream.controller.abort();
    }
    assert(count >= 5 && count < 300, `${count} pieces came before the end`);
    await until('the work of a client that went away to end', async () => (await metric('heddle_requests_running')) === 0);
  }
});

test('many requests at once', async () => {
  const alone = (await client.chat.completions.create(greedy)).choices[0].message.content;
  const answers = await Promise.allSettled(
    range(200).map(async () => {
      let text = '';
      for await (const chunk of await client.chat.completions.create({ ...greedy, stream: true }))
        text += chunk.choices[0].delta.content ?? '';
      return text;
    }),
  );
  const done = answers.filter((one) => one.status === 'fulfilled');
  const turned = answers.filter((one) => one.status === 'rejected').map((one) => one.reason);
  assert(done.length > 0);
  for (const { value } of done) assert.equal(value, alone);
  assert(turned.length > 0, 'a queue of 8 takes no 200 at once');
  for (const error of turned) {
    assert(error instanceof OpenAI.RateLimitError, `expected RateLimitError, found ${error}`);
    assert.equal(error.status, 429);
    assert(Number(error.headers.get('retry-after')) >= 1);
  }
  // a client that retries succeeds
  const patient = client.withOptions({ maxRetries: 5 });
  assert.equal((await patient.chat.completions.create(greedy)).choices[0].message.content, alone);
});
