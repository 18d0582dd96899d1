// What the parts of the chat share: the conversations, the one that is open, the models, and what is being written.
import { notice } from './page.js';
import { pathOf } from './tree.js';

export const byId = (id) => document.getElementById(id);
export const state = {
  conversations: new Map(),
  current: null,
  views: new Map(),
  models: [],
  model: '',
  limits: {},
  query: '',
  files: [],
  draftTokens: 0,
  ready: false,
};
let store;

export function useStore(opened) {
  store = opened;
}

export const isStored = (conversation) => state.conversations.has(conversation.id);

export async function save(conversation) {
  if (!isStored(conversation)) return;
  await store.put(structuredClone(conversation)).catch((error) => notice(error.message));
}

export const removeStored = (conversation) => store.remove(conversation.id);

export function runningNodes(conversation) {
  return Object.values(conversation.nodes).filter((node) => node.status === 'running');
}

export function keepConversation(conversation) {
  if (isStored(conversation)) return;
  state.conversations.set(conversation.id, conversation);
  history.replaceState(null, '', `#${conversation.id}`);
}

export function lastNode(conversation) {
  const path = pathOf(conversation);
  return path[path.length - 1];
}

export const isRunning = () => pathOf(state.current).some((node) => node.status === 'running');

export function modelState(model) {
  const status = model.status && typeof model.status === 'object' ? model.status.value : model.status;
  return status || 'loaded';
}
export const currentModel = () => state.models.find((model) => model.id === state.model);
export const contextOf = () => (currentModel() || {}).max_model_len || 0;

export function announce(text) {
  byId('announce').textContent = text;
}
