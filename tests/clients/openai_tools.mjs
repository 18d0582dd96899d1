// The helpers of OpenAI's client for schemas and tools: node openai_tools.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, timeout: 120_000 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Plan a trip.' }];
// frequency_penalty: a model that was not trained to write JSON ends white space and strings sooner with it
const greedy = { model, messages, temperature: 0, frequency_penalty: 1, max_completion_tokens: 250 };

const Trip = z.object({
  city: z.enum(['Oslo', 'Paris']),
  days: z.number().int().min(1).max(9),
  stops: z.array(z.string().max(8)).min(1).max(2),
  hotel: z.union([z.null(), z.object({ booked: z.boolean() })]),
});
const weatherOf = z.object({ city: z.enum(['Oslo', 'Paris']), unit: z.enum(['C', 'F']) });

test('parse, with a schema of zod', async () => {
  const asked = { ...greedy, response_format: zodResponseFormat(Trip, 'trip') };
  const [choice] = (await client.chat.completions.parse(asked)).choices;
  assert.equal(choice.finish_reason, 'stop');
  assert.deepEqual(choice.message.parsed, Trip.parse(JSON.parse(choice.message.content)));
  const stream = client.chat.completions.stream(asked);
  let pieces = 0;
  stream.on('content.delta', () => ++pieces);
  const streamed = (await stream.finalChatCompletion()).choices[0].message;
  assert.equal(streamed.content, choice.message.content);
  assert.deepEqual(streamed.parsed, choice.message.parsed);
  assert(pieces > 5, `${pieces} pieces`);
  // the message goes back with what the client has added to it
  const next = [...messages, choice.message, { role: 'user', content: 'Another one.' }];
  const again = (await client.chat.completions.parse({ ...asked, messages: next })).choices[0].message;
  Trip.parse(again.parsed);
});

test('parse, with a JSON schema', async () => {
  const schema = { type: 'object', properties: { days: { type: 'integer', minimum: 1, maximum: 9 } },
    required: ['days'], additionalProperties: false };
  const response_format = { type: 'json_schema', json_schema: { name: 'trip', description: 'A trip', schema } };
  const { message } = (await client.chat.completions.parse({ ...greedy, response_format })).choices[0];
  assert.deepEqual(Object.keys(message.parsed), ['days']);
  z.number().int().min(1).max(9).parse(message.parsed.days);
});

test('parse, cut off', async () => {
  const asked = { ...greedy, max_completion_tokens: 3, response_format: zodResponseFormat(Trip, 'trip') };
  await assert.rejects(client.chat.completions.parse(asked), /length limit/);
});

test('parse, with a tool', async () => {
  const tools = [zodFunction({ name: 'get_weather', parameters: weatherOf })];
  const asked = { ...greedy, tools, tool_choice: 'required', parallel_tool_calls: false };
  const [choice] = (await client.chat.completions.parse(asked)).choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  const [call] = choice.message.tool_calls;
  assert.deepEqual(call.function.parsed_arguments, weatherOf.parse(JSON.parse(call.function.arguments)));
  const behind = [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: '12' }];
  const next = await client.chat.completions.create({ ...asked, messages: behind, tool_choice: 'none' });
  assert(next.choices[0].message.content.length > 0);
});

for (const stream of [false, true])
  test(`runTools${stream ? ', streamed' : ''}`, async () => {
    const calls = [];
    const asRun = (parameters) => {
      calls.push(weatherOf.parse(parameters));
      return { degrees: 12 };
    };
    const getWeather = zodFunction({ name: 'get_weather', description: 'Weather of a city', parameters: weatherOf,
      function: asRun });
    const { max_completion_tokens, ...others } = greedy;
    const asked = { ...others, max_tokens: max_completion_tokens, tools: [getWeather], tool_choice: 'required',
      parallel_tool_calls: false };
    if (stream) asked.stream_options = { include_usage: true };
    // the choice stays the same in each request of a run: after the second one the model would call for ever
    const runner = client.chat.completions.runTools({ ...asked, stream }, { maxChatCompletions: 2 });
    await runner.done();
    assert.equal(calls.length, 2);
    assert.deepEqual(runner.messages.map((one) => one.role), ['user', 'assistant', 'tool', 'assistant', 'tool']);
    const [, first, result, second] = runner.messages;
    assert.equal(result.tool_call_id, first.tool_calls[0].id);
    assert.equal(result.content, '{"degrees":12}');
    assert.notEqual(second.tool_calls[0].id, first.tool_calls[0].id);
    const [one, two] = runner.allChatCompletions();
    for (const { choices } of [one, two]) assert.equal(choices[0].finish_reason, 'tool_calls');
    assert(two.usage.prompt_tokens > one.usage.prompt_tokens, 'the call and its result are part of the second prompt');
    const last = await client.chat.completions.create({ ...greedy, messages: runner.messages });
    assert(last.choices[0].message.content.length > 0);
  });
