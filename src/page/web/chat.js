// The chat: conversations at the side, one of them in the middle, and a field to write in. Here are its beginning, the
// state of the server, and the keys.
import { ApiError, getJson } from './api.js';
import { attach, focusInput, renderComposer } from './composer.js';
import { newChat, open, openSettings, renderAll } from './conversations.js';
import { t } from './i18n.js';
import { actions, answer, focusedView, moveFocus, renderLog, stop } from './log.js';
import { applyPreferences, askForKeys, notice } from './page.js';
import { defaultSettings, showHelp } from './settings.js';
import { renderHead, renderSidebar, toggleSidebar } from './sidebar.js';
import {
  byId,
  currentModel,
  isRunning,
  lastNode,
  modelState,
  runningNodes,
  save,
  state,
  useStore,
} from './state.js';
import { Store } from './store.js';
import { newConversation } from './tree.js';

// --- the server ------------------------------------------------------------------------------------------------------
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function watchServer() {
  for (;;) {
    let pause = 30000;
    try {
      state.models = (await getJson('/v1/models')).data;
      if (!state.models.some((model) => model.id === state.model)) state.model = (state.models[0] || {}).id || '';
      if (!Object.keys(state.limits).length) state.limits = (await getJson('/v1/effective-config')).limits || {};
      if (!state.ready)
        notice(currentModel() && currentModel().meta && currentModel().meta.chat === false ? t('noTemplate') : '');
      state.ready = true;
      if (state.models.some((model) => modelState(model) === 'loading')) pause = 2000;
    } catch (error) {
      state.ready = false;
      pause = 2000;
      notice(error instanceof ApiError ? (error.status === 503 ? t('serverLoading') : error.message) : t('serverGone'));
    }
    renderHead();
    renderComposer();
    if (state.ready) resumeAnswers();
    await wait(pause);
  }
}

let resumed = false;
function resumeAnswers() {
  if (resumed) return;
  resumed = true;
  for (const conversation of state.conversations.values())
    for (const node of runningNodes(conversation)) {
      if (node.run) continue;
      if (node.response) {
        answer(conversation, node);
      } else {
        // the page was left before the server had begun
        node.status = 'stopped';
        save(conversation);
      }
    }
  renderSidebar();
}

// --- keys ------------------------------------------------------------------------------------------------------------
function onKey(event) {
  if (document.querySelector('dialog[open]')) return;
  const writes = event.target.matches('input, textarea, select');
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !writes;
  const view = focusedView(),
    key = event.key.toLowerCase();
  const done = (work) => {
    event.preventDefault();
    work();
  };
  if (event.key === 'Escape') {
    if (document.body.classList.contains('sidebar-open')) return done(toggleSidebar);
    if (isRunning()) return done(stop);
    return event.target.blur();
  }
  if ((event.ctrlKey || event.metaKey) && key === 'k') return done(focusSearch);
  if (event.altKey && !event.ctrlKey) {
    if (event.code === 'KeyN') return done(newChat);
    if (event.code === 'KeyB') return done(toggleSidebar);
    if (event.code === 'Comma') return done(openSettings);
    if (key === 'arrowdown' || key === 'arrowup') return done(() => moveConversation(key === 'arrowdown' ? 1 : -1));
  }
  if (!plain) return undefined;
  if (key === '/') return done(focusInput);
  if (key === '?') return done(showHelp);
  if (key === 'j') return done(() => moveFocus(1));
  if (key === 'k') return done(() => moveFocus(-1));
  if (!view || event.target.closest('button, summary, a')) return undefined;
  if (key === 'e') return done(() => view.edit());
  if (key === 'c') return done(() => view.tools.querySelector('.copy') && view.tools.querySelector('.copy').click());
  if (key === 'r' && view.node.role === 'assistant') return done(() => actions.regenerate(view.node));
  if (key === 'g' && view.canContinue(view.node === lastNode(state.current)))
    return done(() => actions.continue(view.node));
  if (key === '[' || key === ']') return done(() => actions.switch(view.node, key === '[' ? -1 : 1));
  if (key === 't' && view.thought) return done(() => (view.thought.open = !view.thought.open));
  return undefined;
}

function focusSearch() {
  document.body.classList.remove('sidebar-closed');
  if (matchMedia('(max-width: 760px)').matches) document.body.classList.add('sidebar-open');
  byId('search').focus();
}

function moveConversation(step) {
  const list = [...state.conversations.values()].sort((a, b) => b.updated - a.updated);
  const at = list.indexOf(state.current);
  const next = list[at < 0 ? 0 : at + step];
  if (next) open(next);
}

// --- the beginning ---------------------------------------------------------------------------------------------------
async function start() {
  applyPreferences();
  askForKeys();
  const store = await Store.open();
  useStore(store);
  for (const conversation of await store.all()) state.conversations.set(conversation.id, conversation);
  state.model = localStorage.getItem('heddle-model') || '';
  state.current = state.conversations.get(location.hash.slice(1)) || newConversation(defaultSettings());
  renderAll();
  byId('log').scrollTop = byId('log').scrollHeight;
  if (!store.keeps) notice(t('notKept'));
  store.onChange = async (id) => {
    // by another window
    const known = state.conversations.get(id);
    if (known && runningNodes(known).some((node) => node.run)) return;
    const changed = await store.get(id);
    if (changed) state.conversations.set(id, changed);
    else state.conversations.delete(id);
    if (known && known === state.current && changed) {
      state.current = changed;
      renderLog();
    }
    renderSidebar();
  };
  document.addEventListener('keydown', onKey);
  document.addEventListener('dragover', (event) => event.preventDefault());
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  });
  byId('main').addEventListener(
    'click',
    (event) => event.target.closest('#menu') || document.body.classList.remove('sidebar-open'),
    true,
  );
  if (!matchMedia('(max-width: 760px)').matches) focusInput();
  watchServer();
}

start();
