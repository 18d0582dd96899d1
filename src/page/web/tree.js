// A conversation as a tree: every message knows what it answers, and of several answers one is chosen. Plain objects,
// as they are stored and exported.
//   conversation: {id, title, created, updated, settings, nodes: {ID: node}, chosen: {PARENT: CHILD}}
//   node: {id, parent, role, content, ...}; the first messages have the parent 'root'
export const root = 'root';

// Random, also where there is no crypto.randomUUID (pages without TLS).
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newConversation(settings = {}) {
  const now = Date.now();
  return { id: newId(), title: '', created: now, updated: now, settings, nodes: {}, chosen: {} };
}

export function childrenOf(conversation, id) {
  return Object.values(conversation.nodes)
    .filter((node) => node.parent === id)
    .sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

export function siblingsOf(conversation, node) {
  return childrenOf(conversation, node.parent);
}

// The messages that are shown, from the first on.
export function pathOf(conversation) {
  const path = [];
  for (let at = root; ;) {
    const children = childrenOf(conversation, at);
    if (!children.length) return path;
    const next = children.find((node) => node.id === conversation.chosen[at]) || children[children.length - 1];
    path.push(next);
    at = next.id;
    if (path.length > 10000) return path;
  }
}

// The messages before one, from the first on, without it.
export function pathTo(conversation, node) {
  const path = [];
  for (let at = conversation.nodes[node.parent]; at; at = conversation.nodes[at.parent]) path.unshift(at);
  return path;
}

// A new message after `parent` (an id), chosen.
export function addNode(conversation, parent, fields) {
  const siblings = childrenOf(conversation, parent);
  const last = siblings.length ? siblings[siblings.length - 1].created : 0;
  const node = { id: newId(), parent, content: '', ...fields, created: Math.max(Date.now(), last + 1) };
  conversation.nodes[node.id] = node;
  conversation.chosen[parent] = node.id;
  conversation.updated = Date.now();
  return node;
}

// Chooses the sibling `step` places away; those deeper stay as they were chosen. Returns it, or null at the end.
export function switchBranch(conversation, node, step) {
  const siblings = siblingsOf(conversation, node);
  const next = siblings[siblings.findIndex((one) => one.id === node.id) + step];
  if (!next) return null;
  conversation.chosen[node.parent] = next.id;
  return next;
}

// With everything after it.
export function removeNode(conversation, node) {
  for (const child of childrenOf(conversation, node.id)) removeNode(conversation, child);
  const siblings = siblingsOf(conversation, node);
  delete conversation.nodes[node.id];
  delete conversation.chosen[node.id];
  if (conversation.chosen[node.parent] !== node.id) return;
  const at = siblings.findIndex((one) => one.id === node.id);
  const next = siblings[at + 1] || siblings[at - 1];
  if (next) conversation.chosen[node.parent] = next.id;
  else delete conversation.chosen[node.parent];
}

export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = pathOf(conversation).find((node) => node.role === 'user');
  const line = first ? first.content.trim().split('\n')[0] : '';
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
}

// Whether every word is in the title or in a message.
export function matches(conversation, query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return true;
  const text = [titleOf(conversation), ...Object.values(conversation.nodes).map((node) => node.content || '')]
    .join('\n')
    .toLowerCase();
  return wanted.every((word) => text.includes(word));
}

// --- export and import ----------------------------------------------------------------------------------------------
export const exportKind = 'heddle-conversations';

export function exported(conversations) {
  return JSON.stringify({ kind: exportKind, version: 1, conversations: conversations.map(withoutRun) }, null, 1);
}

// Without what belongs to this browser and this server.
function withoutRun(conversation) {
  const nodes = Object.fromEntries(Object.entries(conversation.nodes).map(([id, { response, ...node }]) => [id, node]));
  return { ...conversation, nodes };
}

const texts = ['content', 'reasoning', 'error', 'status', 'model', 'callId'];

// The conversations of an exported text; anything that is not as expected is refused, or left out where it does not
// matter.
export function imported(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error('expected JSON');
  }
  if (!data || data.kind !== exportKind || !Array.isArray(data.conversations))
    throw new Error(`expected "kind": "${exportKind}" and a list of conversations`);
  return data.conversations.map((one, i) => {
    const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
    if (!isObject(one) || !isObject(one.nodes)) throw new Error(`conversations[${i}]: expected an object with nodes`);
    const conversation = newConversation(isObject(one.settings) ? one.settings : {});
    if (typeof one.title === 'string') conversation.title = one.title.slice(0, 200);
    for (const key of ['created', 'updated']) if (Number.isFinite(one[key])) conversation[key] = one[key];
    for (const [id, node] of Object.entries(one.nodes)) {
      const place = `conversations[${i}].nodes.${id}`;
      if (!isObject(node) || !['user', 'assistant', 'tool'].includes(node.role))
        throw new Error(`${place}: expected a message with a role`);
      if (
        id === '__proto__' ||
        typeof node.parent !== 'string' ||
        (node.parent !== root && !Object.hasOwn(one.nodes, node.parent))
      )
        throw new Error(`${place}: expected the id of a message as its parent`);
      const kept = {
        id,
        parent: node.parent,
        role: node.role,
        content: '',
        created: Number.isFinite(node.created) ? node.created : 0,
      };
      for (const key of texts) if (typeof node[key] === 'string') kept[key] = node[key];
      if (Array.isArray(node.calls))
        kept.calls = node.calls
          .filter(isObject)
          .map((call) => ({ id: String(call.id), name: String(call.name), arguments: String(call.arguments) }));
      if (Array.isArray(node.files))
        kept.files = node.files.filter(isObject).map((file) => ({ name: String(file.name), text: String(file.text) }));
      if (isObject(node.usage))
        kept.usage = { input: Number(node.usage.input) || 0, output: Number(node.usage.output) || 0 };
      if (kept.status === 'running') kept.status = 'stopped';
      conversation.nodes[id] = kept;
    }
    for (const node of Object.values(conversation.nodes)) {
      // a circle would have no beginning
      const seen = new Set();
      for (let at = node; at.parent !== root; at = conversation.nodes[at.parent]) {
        if (seen.has(at.id)) throw new Error(`conversations[${i}].nodes.${node.id}: expected a tree, found a circle`);
        seen.add(at.id);
      }
    }
    if (isObject(one.chosen))
      for (const [parent, child] of Object.entries(one.chosen))
        if (
          parent !== '__proto__' &&
          typeof child === 'string' &&
          Object.hasOwn(conversation.nodes, child) &&
          conversation.nodes[child].parent === parent
        )
          conversation.chosen[parent] = child;
    return conversation;
  });
}
