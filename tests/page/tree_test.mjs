// Branches, search, export and import of conversations.
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  addNode,
  childrenOf,
  exportKind,
  exported,
  imported,
  matches,
  newConversation,
  pathOf,
  pathTo,
  removeNode,
  root,
  siblingsOf,
  switchBranch,
  titleOf,
} from '../../src/page/web/tree.js';

const shown = (conversation) =>
  pathOf(conversation)
    .map((node) => node.content)
    .join(' ');
function sample() {
  const conversation = newConversation();
  const a = addNode(conversation, root, { role: 'user', content: 'a' });
  const b = addNode(conversation, a.id, { role: 'assistant', content: 'b' });
  const c = addNode(conversation, b.id, { role: 'user', content: 'c' });
  return { conversation, a, b, c };
}

test('an answer that is generated again is a branch; the other stays as it was', () => {
  const { conversation, a, b, c } = sample();
  assert.equal(shown(conversation), 'a b c');
  const b2 = addNode(conversation, a.id, { role: 'assistant', content: 'b2' });
  assert.equal(shown(conversation), 'a b2');
  assert.deepEqual(
    siblingsOf(conversation, b2).map((node) => node.content),
    ['b', 'b2'],
  );
  assert.equal(switchBranch(conversation, b2, -1), b);
  assert.equal(shown(conversation), 'a b c');
  const c2 = addNode(conversation, b.id, { role: 'user', content: 'c2' });
  assert.equal(shown(conversation), 'a b c2');
  switchBranch(conversation, b, 1);
  switchBranch(conversation, b2, -1);
  assert.equal(shown(conversation), 'a b c2', 'what was chosen deeper is remembered');
  assert.equal(switchBranch(conversation, b2, 1), null);
  assert.equal(switchBranch(conversation, b, -1), null);
  assert.deepEqual(
    pathTo(conversation, c2).map((node) => node.content),
    ['a', 'b'],
  );
  assert.deepEqual(pathTo(conversation, a), []);
  removeNode(conversation, b);
  assert.equal(shown(conversation), 'a b2');
  assert.equal(Object.keys(conversation.nodes).length, 2);
  removeNode(conversation, a);
  assert.equal(shown(conversation), '');
  assert.deepEqual(childrenOf(conversation, root), []);
  assert.equal(c.parent, b.id);
});

test('titles and search', () => {
  const { conversation, a } = sample();
  assert.equal(titleOf(conversation), 'a');
  a.content = `${'long '.repeat(30)}\nsecond`;
  assert.equal(titleOf(conversation).length, 60);
  conversation.title = 'Mine';
  assert.equal(titleOf(conversation), 'Mine');
  assert.equal(titleOf(newConversation()), '');
  assert.ok(matches(conversation, ''));
  assert.ok(matches(conversation, 'mine SECOND'));
  assert.ok(!matches(conversation, 'mine third'));
});

test('what is exported comes back', () => {
  const { conversation, a, b } = sample();
  Object.assign(b, {
    reasoning: 'r',
    status: 'done',
    calls: [{ id: 'c1', name: 'f', arguments: '{}' }],
    usage: { input: 3, output: 4 },
    response: { id: 'resp_1' },
  });
  a.files = [{ name: 'f.txt', text: 't' }];
  conversation.settings = { temperature: '0.5' };
  const text = exported([conversation]);
  assert.ok(!text.includes('resp_1'), 'a response of this server says nothing elsewhere');
  const [again] = imported(text);
  assert.notEqual(again.id, conversation.id, 'it stands beside the old one');
  assert.equal(shown(again), 'a b c');
  assert.deepEqual(again.settings, conversation.settings);
  assert.equal(again.nodes[b.id].reasoning, 'r');
  assert.deepEqual(again.nodes[b.id].calls, b.calls);
  assert.deepEqual(again.nodes[b.id].usage, b.usage);
  assert.deepEqual(again.nodes[a.id].files, a.files);
});

test('what cannot be read is refused with its place', () => {
  const file = (conversation) => JSON.stringify({ kind: exportKind, conversations: [conversation] });
  for (const [text, why] of [
    ['{', /expected JSON/],
    ['[]', /kind/],
    ['{"kind":"x","conversations":[]}', /kind/],
    [file(1), /conversations\[0\]/],
    [file({}), /nodes/],
    [file({ nodes: [] }), /nodes/],
    [file({ nodes: { a: { role: 'king', parent: 'root' } } }), /nodes\.a: expected a message with a role/],
    [file({ nodes: { a: { role: 'user', parent: 'b' } } }), /parent/],
    [file({ nodes: { a: { role: 'user' } } }), /parent/],
    [file({ nodes: { a: { role: 'user', parent: 'b' }, b: { role: 'user', parent: 'a' } } }), /circle/],
    [file({ nodes: { a: { role: 'user', parent: 'toString' } } }), /parent/],
  ])
    assert.throws(() => imported(text), why, text);
  const [one] = imported(
    file({
      title: 5,
      chosen: { root: 'z' },
      settings: [],
      nodes: { a: { role: 'assistant', parent: 'root', content: 7, status: 'running', evil: '<b>' } },
    }),
  );
  assert.deepEqual(one.nodes.a, {
    id: 'a',
    parent: 'root',
    role: 'assistant',
    content: '',
    created: 0,
    status: 'stopped',
  });
  assert.equal(shown(one), '');
  assert.deepEqual(one.chosen, {});
  assert.deepEqual(imported(JSON.stringify({ kind: exportKind, conversations: [] })), []);
});
