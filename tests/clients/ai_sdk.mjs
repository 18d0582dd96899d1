// The AI SDK against a running server: node ai_sdk.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve --api-key KEY --ctx 2048` with weft, the built-in model.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, isStepCount, Output, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, apiKey] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: 'heddle', apiKey, baseURL: `${url}/v1`, includeUsage: true,
  supportsStructuredOutputs: true });
// frequencyPenalty: a model that was not trained to write JSON ends white space and strings sooner with it
const greedy = { model: provider('weft'), temperature: 0, frequencyPenalty: 1, maxOutputTokens: 250, maxRetries: 0 };
const prompt = 'Plan a trip.';

const Trip = z
  .object({ city: z.enum(['Oslo', 'Paris']), days: z.number().int().min(1).max(9), note: z.string().max(12) })
  .describe('A trip');

test('generateText and streamText with an object', async () => {
  const asked = { ...greedy, output: Output.object({ schema: Trip, name: 'trip', description: 'A trip' }), prompt };
  const whole = await generateText(asked);
  assert.equal(whole.finishReason, 'stop');
  assert.deepEqual(whole.output, Trip.parse(JSON.parse(whole.text)));
  const stream = streamText(asked);
  let parts = 0;
  for await (const _ of stream.partialOutputStream) ++parts;
  assert(parts > 3, `${parts} parts`);
  assert.deepEqual(await stream.output, whole.output);
  const usage = await stream.usage;
  assert.equal(usage.inputTokens, whole.usage.inputTokens);
  assert.equal(usage.outputTokens, whole.usage.outputTokens);
  assert(usage.outputTokens > 0);
});

test('generateObject and streamObject', async () => {
  const asked = { ...greedy, schema: Trip, prompt };
  const { object, finishReason } = await generateObject(asked);
  assert.equal(finishReason, 'stop');
  assert.deepEqual(Trip.parse(object), object);
  const stream = streamObject(asked);
  let last;
  for await (const part of stream.partialObjectStream) last = part;
  assert.deepEqual(last, object);
  assert.deepEqual(await stream.object, object);
});

test('choices and lists', async () => {
  const options = ['red', 'green'];
  const { output } = await generateText({ ...greedy, output: Output.choice({ options }), prompt });
  assert(options.includes(output), output);
  const element = z.object({ n: z.number().int().min(1).max(3) });
  const list = await generateText({ ...greedy, output: Output.array({ element, maxItems: 2 }), prompt });
  for (const one of list.output) element.parse(one);
});

const weatherOf = z.object({ city: z.enum(['Oslo', 'Paris']) });
const weather = tool({
  description: 'Weather of a city',
  inputSchema: weatherOf,
  execute: async ({ city }) => ({ city, degrees: 12 }),
});
// weft is made to call a tool once, and then to answer
const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
const withTools = { ...greedy, instructions: 'You help.', tools: { weather }, prompt: 'What is the weather?',
  prepareStep, stopWhen: isStepCount(3) };

function expectSteps(steps) {
  assert.deepEqual(steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
  const [first, second] = steps;
  assert(first.toolCalls.length >= 1);
  for (const call of first.toolCalls) {
    assert.equal(call.toolName, 'weather');
    assert(!call.invalid);
    weatherOf.parse(call.input);
  }
  const expected = first.toolCalls.map(({ input }) => ({ ...input, degrees: 12 }));
  assert.deepEqual(first.toolResults.map((one) => one.output), expected);
  assert.deepEqual(second.toolCalls, []);
  assert(second.text.length > 0);
}

test('tools with generateText', async () => {
  const { steps } = await generateText(withTools);
  expectSteps(steps);
});

test('tools with streamText', async () => {
  const whole = await generateText(withTools);
  const stream = streamText(withTools);
  const parts = [];
  for await (const part of stream.fullStream) parts.push(part);
  assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
  const steps = await stream.steps;
  expectSteps(steps);
  assert.deepEqual(steps[0].toolCalls.map((call) => call.input), whole.steps[0].toolCalls.map((call) => call.input));
  assert.equal(await stream.text, whole.text);
  const deltas = parts.filter((part) => part.type === 'tool-input-delta');
  assert(deltas.length > 3, 'arguments come in pieces');
  assert.equal((await stream.usage).inputTokens, whole.usage.inputTokens);
});

test('a tool by name', async () => {
  const other = tool({ description: 'Another', inputSchema: z.object({ n: z.number().int() }) });
  const { toolCalls } = await generateText({ ...greedy, tools: { other, weather },
    toolChoice: { type: 'tool', toolName: 'weather' }, prompt: 'What is the weather?' });
  assert(toolCalls.length >= 1);
  for (const call of toolCalls) assert.equal(call.toolName, 'weather');
});

test('settings', async () => {
  const heddle = { user: 'somebody', reasoningEffort: 'none', textVerbosity: 'medium' };
  const { warnings, text } = await generateText({ ...greedy, prompt, topP: 0.9, presencePenalty: 0.1, seed: 4,
    stopSequences: ['never said'], providerOptions: { heddle } });
  assert.deepEqual(warnings ?? [], []);
  assert(text.length > 0);
  const unknown = await generateText({ ...greedy, prompt, providerOptions: { heddle: { temprature: 1 } } });
  assert.equal(unknown.response.headers['x-heddle-ignored'], 'temprature');
  await assert.rejects(generateText({ ...greedy, prompt, providerOptions: { heddle: { min_tokens: 9 } } }), (error) => {
    assert(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /min_tokens/);
    return true;
  });
});
