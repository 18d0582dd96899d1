// What codex.sh has written down, checked: node codex_check.mjs LOG WORD
// A forced call reached Codex, Codex ran it, and its output, which has the word, came back in the next request, most of
// whose prompt was found in the prefix cache.
import assert from 'node:assert/strict';
import fs from 'node:fs';

const [log, word] = process.argv.slice(2);
const passed = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const turns = passed.filter((one) => one.url === '/v1/responses');
assert(turns.length >= 2, `${turns.length} requests`);
for (const turn of turns) {
  assert.equal(turn.status, 200);
  // a stream may have comments too
  turn.events = turn.events.split('\n').filter((line) => line.startsWith('data: ')).map((line) => JSON.parse(line.slice(6)));
  turn.last = turn.events.at(-1);
  assert.equal(turn.last.type, 'response.completed');
}
const [first, second] = turns;
const call = first.last.response.output.find((item) => item.type === 'function_call');
assert.equal(call.name, 'exec_command');
assert.deepEqual(JSON.parse(call.arguments), { cmd: 'cat note.txt' });
const sentBack = second.asked.input.find((item) => item.type === 'function_call_output');
assert.equal(sentBack.call_id, call.call_id);
assert(JSON.stringify(sentBack.output).includes(word), `the output of the command: ${JSON.stringify(sentBack)}`);
const { input_tokens: all, input_tokens_details: { cached_tokens: cached } } = second.last.response.usage;
assert(cached >= 0.9 * all, `${cached} of ${all} tokens of the second prompt were reused`);
console.log(`${turns.length} requests; ${call.name} ${call.arguments} was run and its output sent back;`,
  `${cached} of ${all} tokens of the second prompt were reused; ignored: ${second.ignored}`);
