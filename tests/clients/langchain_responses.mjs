// LangChain with OpenAI's responses: node langchain_responses.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048 --kv-tokens 4096` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';

const [url, apiKey] = process.argv.slice(2);
const options = { model: 'weft', apiKey, useResponsesApi: true, temperature: 0, maxTokens: 200, maxRetries: 0,
  configuration: { baseURL: `${url}/v1` } };
const boat = new HumanMessage('Tell me a story about a boat.');
const getWeather = tool(() => '12 degrees', { name: 'get_weather', description: 'Weather of a city',
  schema: z.object({ city: z.enum(['Oslo', 'Paris']) }) });
const terse = { modelKwargs: { frequency_penalty: 1 } }; // ends white space in JSON sooner

test('invoke and stream', async () => {
  const llm = new ChatOpenAI({ ...options, maxTokens: 24 });
  const answer = await llm.invoke([boat]);
  assert(answer.text.length > 10);
  assert.equal(answer.usage_metadata.output_tokens, 24);
  let text = '';
  for await (const chunk of await llm.stream([boat])) text += chunk.text;
  assert.equal(text, answer.text);
});

test('a tool, there and back', async () => {
  const llm = new ChatOpenAI({ ...options, ...terse });
  // by name: LangChain leaves "required" out of the body of a response
  const first = await llm.bindTools([getWeather], { tool_choice: 'get_weather', parallel_tool_calls: false }).invoke([boat]);
  const [call] = first.tool_calls;
  assert.equal(call.name, 'get_weather');
  const result = await getWeather.invoke(call);
  assert(result instanceof ToolMessage);
  const next = await new ChatOpenAI({ ...options, maxTokens: 24 }).bindTools([getWeather]).invoke([boat, first, result]);
  assert(next.text.length > 0 || next.tool_calls.length > 0);
});

test('structured output', async () => {
  const Trip = z.object({ city: z.enum(['Oslo', 'Paris']), days: z.number().int().min(1).max(9) });
  const llm = new ChatOpenAI({ ...options, ...terse }).withStructuredOutput(Trip, { method: 'jsonSchema' });
  Trip.parse(await llm.invoke([new HumanMessage('Plan a trip.')]));
});
