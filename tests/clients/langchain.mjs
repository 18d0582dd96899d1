// LangChain's client against a running server: node langchain.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';

const [url, apiKey] = process.argv.slice(2);
// frequencyPenalty: a model that was not trained to write JSON ends white space and strings sooner with it
const chat = new ChatOpenAI({ model: 'weft', apiKey, temperature: 0, frequencyPenalty: 1, maxTokens: 250, maxRetries: 0,
  timeout: 120_000, configuration: { baseURL: `${url}/v1` } });

const Trip = z
  .object({ city: z.enum(['Oslo', 'Paris']), days: z.number().int().min(1).max(9), note: z.string().max(12) })
  .describe('A trip');
const tripSchema = {
  title: 'trip',
  description: 'A trip',
  type: 'object',
  properties: { city: { enum: ['Oslo', 'Paris'] }, days: { type: 'integer', minimum: 1, maximum: 9 },
    note: { type: 'string', maxLength: 12 } },
  required: ['city', 'days', 'note'],
  additionalProperties: false,
};
async function allOf(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

for (const method of [undefined, 'jsonSchema', 'functionCalling'])
  for (const strict of [undefined, true])
    for (const [kind, schema] of [['zod', Trip], ['JSON schema', tripSchema]])
      test(`withStructuredOutput: ${method ?? 'default'}${strict ? ', strict' : ''}, ${kind}`, async () => {
        const structured = chat.withStructuredOutput(schema, { name: 'trip', method, strict });
        const trip = await structured.invoke('Plan a trip.');
        assert.deepEqual(Trip.parse(trip), trip);
        const streamed = await allOf(await structured.stream('Plan a trip.'));
        assert.deepEqual(streamed.at(-1), trip);
        // LangChain itself gives the content that zod reads as one piece
        if (method === 'functionCalling' || kind !== 'zod') assert(streamed.length > 3, `${streamed.length} pieces`);
      });

test('withStructuredOutput, with the message', async () => {
  const structured = chat.withStructuredOutput(Trip, { name: 'trip', method: 'functionCalling', includeRaw: true });
  const { raw, parsed } = await structured.invoke([new SystemMessage('You plan.'), new HumanMessage('A trip.')]);
  assert.equal(raw.tool_calls.length, 1);
  assert.equal(raw.tool_calls[0].name, 'trip');
  assert.deepEqual(parsed, raw.tool_calls[0].args);
});

const weatherOf = z.object({ city: z.enum(['Oslo', 'Paris']) });
const getWeather = tool(({ city }) => `It is 12 degrees in ${city}.`, {
  name: 'get_weather',
  description: 'Weather of a city',
  schema: weatherOf,
});
const question = [new SystemMessage('You help.'), new HumanMessage('What is the weather?')];

for (const more of [{}, { strict: true }, { parallel_tool_calls: false }])
  test(`bindTools ${JSON.stringify(more)}`, async () => {
    const bound = chat.bindTools([getWeather], { tool_choice: 'any', ...more });
    const answering = chat.bindTools([getWeather], { tool_choice: 'none' });
    const whole = await bound.invoke(question);
    let put;
    for await (const chunk of await bound.stream(question)) put = put ? put.concat(chunk) : chunk;
    for (const answer of [whole, put]) {
      assert.equal(answer.response_metadata.finish_reason, 'tool_calls');
      assert.equal(answer.content, '');
      assert.deepEqual(answer.invalid_tool_calls ?? [], []);
      assert(answer.tool_calls.length >= 1);
      if (more.parallel_tool_calls === false) assert.equal(answer.tool_calls.length, 1);
      for (const call of answer.tool_calls) {
        assert.equal(call.name, 'get_weather');
        weatherOf.parse(call.args);
      }
      // a result as the tool gives it, and one in parts
      const [call, ...others] = answer.tool_calls;
      const parts = [{ type: 'text', text: 'It is ' }, { type: 'text', text: '3.' }];
      const inParts = ({ id }) => new ToolMessage({ tool_call_id: id, content: parts });
      for (const result of [await getWeather.invoke(call), inParts(call)]) {
        const last = await answering.invoke([...question, answer, result, ...others.map(inParts)]);
        assert.deepEqual(last.tool_calls, []);
        assert(last.content.length > 0);
      }
    }
    assert.deepEqual(put.tool_calls.map((call) => call.args), whole.tool_calls.map((call) => call.args));
    assert.equal(put.usage_metadata.input_tokens, whole.usage_metadata.input_tokens);
    assert.equal(put.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
    assert(whole.usage_metadata.output_tokens > 0);
  });

test('a tool by name', async () => {
  const other = tool(() => 'no', { name: 'other', description: '', schema: z.object({ n: z.number().int() }) });
  const answer = await chat.bindTools([other, getWeather], { tool_choice: 'get_weather' }).invoke(question);
  for (const call of answer.tool_calls) assert.equal(call.name, 'get_weather');
  assert(answer.tool_calls.length >= 1);
});
