// A validator of one stream of OpenAI's responses, event by event: the order of the events, the members that the types
// of npm's `openai` require of each, and that what was said piece by piece is what is said in the end.
import assert from 'node:assert/strict';

const string = (value) => typeof value === 'string';
const number = (value) => typeof value === 'number';
const whole = (value) => Number.isSafeInteger(value) && value >= 0;
const list = (of) => (value) => Array.isArray(value) && value.every(of);
const either = (...all) => (value) => all.some((one) => (typeof one === 'function' ? one(value) : one === value));
const orNull = (one) => either(null, one);
const optional = (one) => either(undefined, one);
const object = (members) => (value) =>
  value !== null && typeof value === 'object' && Object.entries(members).every(([name, is]) => is(value[name]));
const anyObject = object({});

const status = either('in_progress', 'completed', 'incomplete');
const logprob = object({ token: string, logprob: number, top_logprobs: list(object({ token: string, logprob: number })) });
const outputText = object({ type: either('output_text'), text: string, annotations: list(anyObject),
  logprobs: optional(list(logprob)) });
const reasoningText = object({ type: either('reasoning_text'), text: string });
const message = object({ type: either('message'), id: string, role: either('assistant'), status, content: list(outputText) });
const reasoning = object({ type: either('reasoning'), id: string, summary: list(object({ type: either('summary_text'), text: string })),
  content: optional(list(reasoningText)), encrypted_content: optional(orNull(string)), status: optional(status) });
const call = object({ type: either('function_call'), id: string, call_id: string, name: string, arguments: string, status });
const item = either(message, reasoning, call);
const usage = object({ input_tokens: whole, output_tokens: whole, total_tokens: whole,
  input_tokens_details: object({ cached_tokens: whole, cache_write_tokens: whole }),
  output_tokens_details: object({ reasoning_tokens: whole }) });
const functionTool = object({ type: either('function'), name: string, parameters: orNull(anyObject), strict: either(true, false) });
const response = {
  id: (value) => string(value) && value.startsWith('resp_'), object: either('response'), created_at: whole,
  access_programs: orNull(anyObject), error: orNull(object({ code: string, message: string })),
  incomplete_details: orNull(object({ reason: either('max_output_tokens', 'content_filter') })),
  instructions: orNull(string), metadata: orNull(anyObject), model: string, output: list(item),
  parallel_tool_calls: either(true, false), temperature: orNull(number), top_p: orNull(number),
  tool_choice: either('auto', 'none', 'required', object({ type: string })), tools: list(functionTool),
  background: either(true, false), completed_at: orNull(whole), max_output_tokens: orNull(whole), previous_response_id: orNull(string),
  reasoning: object({ effort: orNull(string), summary: orNull(string) }), service_tier: string, store: either(true, false),
  status: either('completed', 'failed', 'in_progress', 'cancelled', 'incomplete'),
  text: object({ format: object({ type: either('text', 'json_object', 'json_schema') }) }), top_logprobs: orNull(whole),
  truncation: either('auto', 'disabled'), usage: orNull(usage),
};
const lifecycle = { response: object(response) };
const inItem = { item_id: string, output_index: whole };
const inPart = { ...inItem, content_index: whole };
const part = either(outputText, reasoningText);
const events = {
  'response.created': lifecycle, 'response.in_progress': lifecycle, 'response.completed': lifecycle,
  'response.incomplete': lifecycle, 'response.failed': lifecycle,
  'response.output_item.added': { output_index: whole, item }, 'response.output_item.done': { output_index: whole, item },
  'response.content_part.added': { ...inPart, part }, 'response.content_part.done': { ...inPart, part },
  'response.output_text.delta': { ...inPart, delta: string, logprobs: list(logprob) },
  'response.output_text.done': { ...inPart, text: string, logprobs: list(logprob) },
  'response.reasoning_text.delta': { ...inPart, delta: string }, 'response.reasoning_text.done': { ...inPart, text: string },
  'response.function_call_arguments.delta': { ...inItem, delta: string },
  'response.function_call_arguments.done': { ...inItem, arguments: string },
  error: { code: orNull(string), message: string, param: orNull(string) },
};

export function checkMembers(members, value, what) {
  for (const [name, is] of Object.entries(members))
    assert(is(value[name]), `${what}.${name}: not what its type allows: ${JSON.stringify(value[name])}`);
}
export const checkResponse = (value) => checkMembers(response, value, 'response');

// What may follow what within an item, and which of its texts a delta adds to.
const texts = { 'response.output_text': 'text', 'response.reasoning_text': 'text', 'response.function_call_arguments': 'arguments' };

// Returns the last response. `all`: the events of a stream from its beginning to its end.
export function checkStream(all) {
  all.forEach((event, index) => {
    assert(events[event.type], `an event that there is not: ${event.type}`);
    checkMembers(events[event.type], event, event.type);
    assert.equal(event.sequence_number, index);
  });
  const [created, progress, ...rest] = all;
  assert.equal(created.type, 'response.created');
  assert.equal(progress.type, 'response.in_progress');
  for (const { response: one } of [created, progress]) {
    assert.equal(one.status, 'in_progress');
    assert.deepEqual(one.output, []);
    assert.equal(one.usage, null);
  }
  const last = rest.pop();
  assert.match(last.type, /^response\.(completed|incomplete|failed)$/);
  if (['completed', 'incomplete'].includes(last.response.status)) assert.notEqual(last.response.usage, null);
  const output = [];
  let open = null; // the item that is being written
  for (const event of rest) {
    if (event.type === 'error') {
      assert.equal(last.type, 'response.failed');
      continue;
    }
    if (event.type === 'response.output_item.added') {
      assert.equal(open, null, 'an item begins within another');
      assert.equal(event.output_index, output.length);
      assert.equal(event.item.status, 'in_progress');
      open = { item: event.item, text: '', expects: event.item.type === 'function_call' ? 'text' : 'part' };
      continue;
    }
    assert(open, `${event.type} outside of an item`);
    assert.equal(event.output_index, output.length);
    if (event.item_id !== undefined) assert.equal(event.item_id, open.item.id);
    if (event.content_index !== undefined) assert.equal(event.content_index, 0);
    const [, kind, step] = /^(.*)\.(\w+)$/.exec(event.type);
    if (event.type === 'response.content_part.added') {
      assert.equal(open.expects, 'part');
      assert.equal(event.part.text, '');
      open.expects = 'text';
    } else if (texts[kind] && step === 'delta') {
      assert.equal(open.expects, 'text');
      assert(event.delta.length > 0, 'a delta of nothing');
      open.text += event.delta;
    } else if (texts[kind] && step === 'done') {
      assert.equal(open.expects, 'text');
      assert.equal(event[texts[kind]], open.text);
      open.expects = kind === 'response.function_call_arguments' ? 'end' : 'part_end';
    } else if (event.type === 'response.content_part.done') {
      assert.equal(open.expects, 'part_end');
      assert.equal(event.part.text, open.text);
      open.part = event.part;
      open.expects = 'end';
    } else {
      assert.equal(event.type, 'response.output_item.done');
      assert.equal(open.expects, 'end');
      assert.equal(event.item.id, open.item.id);
      assert.equal(event.item.type, open.item.type);
      assert.notEqual(event.item.status, 'in_progress');
      if (event.item.type === 'function_call') assert.equal(event.item.arguments, open.text);
      else assert.deepEqual(event.item.content, [open.part]);
      output.push(event.item);
      open = null;
    }
  }
  assert.equal(open, null, 'an item has no end');
  assert.deepEqual(last.response.output, output);
  return last.response;
}
