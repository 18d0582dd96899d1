// The AI SDK's provider for Anthropic against a running server: node ai_sdk_anthropic.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateText, isStepCount, streamText, tool } from 'ai';
import { z } from 'zod';

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, apiKey] = process.argv.slice(2);
const provider = createAnthropic({ apiKey, baseURL: `${url}/v1` });
const greedy = { model: provider('weft'), temperature: 0, maxOutputTokens: 60, maxRetries: 0 };
const prompt = 'Tell me a story about a boat.';

test('generateText and streamText', async () => {
  const whole = await generateText({ ...greedy, system: 'You tell stories.', prompt });
  assert(whole.text.length > 10);
  assert.equal(whole.finishReason, 'length');
  const stream = streamText({ ...greedy, system: 'You tell stories.', prompt });
  let parts = 0;
  for await (const _ of stream.textStream) ++parts;
  assert(parts > 10, `${parts} parts`);
  assert.equal(await stream.text, whole.text);
  const usage = await stream.usage;
  assert.equal(usage.outputTokens, 60);
  assert.equal(usage.inputTokens, whole.usage.inputTokens, 'with those of the cache');
});

test('stop sequences', async () => {
  const { text, finishReason } = await generateText({ ...greedy, maxOutputTokens: 200, prompt, stopSequences: ['.'] });
  assert.equal(finishReason, 'stop');
  assert(!text.includes('.'));
});

const weatherOf = z.object({ city: z.enum(['Oslo', 'Paris']) });
const weather = tool({
  description: 'Weather of a city',
  inputSchema: weatherOf,
  execute: async ({ city }) => ({ city, degrees: 12 }),
});
// weft is made to call a tool once, and then to answer
const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
const withTools = { ...greedy, maxOutputTokens: 250, tools: { weather }, prompt: 'What is the weather?', prepareStep,
  stopWhen: isStepCount(2), providerOptions: { anthropic: { disableParallelToolUse: true } } };

function expectSteps(steps) {
  assert.equal(steps.length, 2);
  const [first, second] = steps;
  assert.equal(first.finishReason, 'tool-calls');
  assert.equal(first.toolCalls.length, 1);
  const [call] = first.toolCalls;
  assert.equal(call.toolName, 'weather');
  weatherOf.parse(call.input);
  assert.deepEqual(first.toolResults.map((one) => one.output), [{ ...call.input, degrees: 12 }]);
  assert.deepEqual(second.toolCalls, []);
  assert(second.text.length > 0);
}

test('tools with generateText', async () => {
  const { steps } = await generateText(withTools);
  expectSteps(steps);
});

test('tools with streamText', async () => {
  const stream = streamText(withTools);
  const parts = [];
  for await (const part of stream.fullStream) parts.push(part);
  assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
  expectSteps(await stream.steps);
  assert(parts.filter((part) => part.type === 'tool-input-delta').length > 3, 'arguments come in pieces');
});

test('errors', async () => {
  await assert.rejects(generateText({ ...greedy, model: provider('gpt'), prompt }), (error) => {
    assert(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 404);
    assert.match(error.message, /gpt/);
    return true;
  });
});
