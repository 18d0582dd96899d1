// One answer: the request that a conversation becomes, and the events that become a message. Knows no elements.
import { follow, postJson, request } from './api.js';
import { pathTo } from './tree.js';

// A user's message with its files, as the model reads it.
export function userText(node) {
  const files = (node.files || []).map((file) => `${file.name}:\n\`\`\`\n${file.text}\n\`\`\``);
  return [...files, node.content].filter(Boolean).join('\n\n');
}

function itemsOf(node) {
  if (node.role === 'user') return [{ role: 'user', content: userText(node) }];
  if (node.role === 'tool') return [{ type: 'function_call_output', call_id: node.callId, output: node.content }];
  const items = [];
  if (node.reasoning)
    items.push({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: node.reasoning }] });
  if (node.content) items.push({ role: 'assistant', content: node.content });
  for (const call of node.calls || [])
    items.push({ type: 'function_call', call_id: call.id, name: call.name, arguments: call.arguments });
  return items;
}

export const numbers = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repeat_penalty',
  'presence_penalty',
  'frequency_penalty',
];

// The body of the request for an answer at `node`, which has its parents already.
export function requestBody(conversation, node, model) {
  const settings = conversation.settings || {};
  const path = pathTo(conversation, node);
  const body = { model, stream: true, background: true, input: path.flatMap(itemsOf) };
  if (settings.system) body.instructions = settings.system;
  for (const name of [...numbers, 'seed'])
    if (settings[name] !== undefined && settings[name] !== '') body[name] = Number(settings[name]);
  if (settings.maxTokens) body.max_output_tokens = Number(settings.maxTokens);
  if (settings.effort) body.reasoning = { effort: settings.effort };
  if (settings.format === 'object') body.text = { format: { type: 'json_object' } };
  if (settings.format === 'schema')
    body.text = { format: { type: 'json_schema', name: 'answer', schema: JSON.parse(settings.schema) } };
  if (settings.tools) body.tools = JSON.parse(settings.tools).map(flatTool);
  if (node.base) {
    // what is there already is continued
    body.input.push(...itemsOf({ role: 'assistant', content: node.base.content, reasoning: node.base.reasoning }));
    body.continue_final_message = true;
    delete body.text;
  }
  return body;
}

// Tools may be written as chats have them, or as responses have them.
function flatTool(tool) {
  return tool && tool.function ? { type: 'function', ...tool.function } : tool;
}

// Puts an event into the message. True: something to show has changed.
export function apply(node, event, now = performance.now()) {
  const run = node.run;
  switch (event.type) {
    case 'response.created':
      node.response = { id: event.response.id };
      node.model = event.response.model;
      return true;
    case 'response.reasoning_text.delta':
      run.thoughtBegan ??= now;
      countToken(run, now);
      node.reasoning = (node.reasoning || '') + event.delta;
      return true;
    case 'response.reasoning_text.done':
      if (run.thoughtBegan !== undefined && !run.replayed) node.thoughtSeconds = (now - run.thoughtBegan) / 1000;
      return true;
    case 'response.output_text.delta':
      countToken(run, now);
      node.content += event.delta;
      return true;
    case 'response.output_item.added':
      if (event.item.type !== 'function_call') return false;
      node.calls = [...(node.calls || []), { id: event.item.call_id, name: event.item.name, arguments: '' }];
      return true;
    case 'response.function_call_arguments.delta':
      countToken(run, now);
      node.calls[node.calls.length - 1].arguments += event.delta;
      return true;
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
      finish(node, event);
      return true;
    default:
      return false;
  }
}

function countToken(run, now) {
  run.first ??= now;
  run.last = now;
  run.tokens = (run.tokens || 0) + 1;
}

function finish(node, { response, whole }) {
  if (whole) takeOutput(node, response);
  const cut = response.status === 'incomplete' ? 'cut' : 'done';
  node.status = { cancelled: 'stopped', failed: 'failed' }[response.status] || cut;
  if (response.error) node.error = response.error.message;
  if (response.usage)
    node.usage = {
      input: response.usage.input_tokens,
      output: response.usage.output_tokens,
      cached: (response.usage.input_tokens_details || {}).cached_tokens,
    };
  const trace = response.trace && response.trace.completions && response.trace.completions[0];
  if (trace) {
    node.firstToken =
      (response.trace.waiting_ms +
        response.trace.parse_ms +
        response.trace.template_ms +
        response.trace.tokenize_ms +
        trace.queue_ms +
        trace.prompt_ms) /
      1e3;
    if (node.usage && node.usage.output > 1 && trace.generation_ms > 0)
      node.rate = (node.usage.output - 1) / (trace.generation_ms / 1e3);
  }
}

// Of a response that came whole instead of as events.
function takeOutput(node, response) {
  restart(node);
  for (const item of response.output) {
    const text = (item.content || []).map((part) => part.text || '').join('');
    if (item.type === 'reasoning') node.reasoning = (node.reasoning || '') + text;
    if (item.type === 'message') node.content += text;
    if (item.type === 'function_call')
      node.calls = [...(node.calls || []), { id: item.call_id, name: item.name, arguments: item.arguments }];
  }
}

// As it was before the first event.
function restart(node) {
  node.content = node.base ? node.base.content : '';
  node.reasoning = node.base ? node.base.reasoning : undefined;
  node.calls = undefined;
}

// Tokens per second so far, as this page has seen them.
export function liveRate(node) {
  const run = node.run;
  return run && run.tokens > 5 && run.last > run.first ? (run.tokens - 1) / ((run.last - run.first) / 1000) : 0;
}

async function create(body) {
  const options = { method: 'POST', headers: { 'X-Trace-Level': 'request' } };
  try {
    return await request('/v1/responses', { ...options, body });
  } catch (error) {
    if (error.param !== 'background') throw error;
    // the server keeps nothing: the answer ends with this page
    return request('/v1/responses', { ...options, body: { ...body, background: false } });
  }
}

// Generates the answer at `node`, or goes on with one that the server already generates. `changed(node, type)` is
// called for every event. Never throws: what fails is written into the message.
export async function runAnswer(conversation, node, model, changed) {
  const known = node.response && node.response.id;
  // what a run needs is not stored: the next page begins from the server's events
  Object.defineProperty(node, 'run', {
    value: { replayed: Boolean(known) },
    enumerable: false,
    configurable: true,
    writable: true,
  });
  node.status = 'running';
  restart(node);
  try {
    const first = known ? null : await create(requestBody(conversation, node, model));
    for await (const event of follow(known, first)) {
      const changes = apply(node, event);
      if (event.type === 'response.created' && node.run.stops) stopAnswer(node);
      if (changes) changed(node, event.type);
    }
  } catch (error) {
    node.status = 'failed';
    node.error = error.status === 404 && known ? 'lost' : error.message;
  }
  const id = node.response && node.response.id;
  delete node.response;
  delete node.run;
  changed(node, 'end');
  // the conversation is kept here, not there
  if (id) request(`/v1/responses/${id}`, { method: 'DELETE' }).catch(() => {});
}

export async function stopAnswer(node) {
  if (!node.response) {
    if (node.run) node.run.stops = true; // as soon as the server has said its name
    return;
  }
  await postJson(`/v1/responses/${node.response.id}/cancel`, undefined).catch(() => {}); // it has ended already
}
