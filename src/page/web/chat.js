// The chat: conversations at the side, one of them in the middle, and a field to write in.
import { ApiError, getJson, postJson } from './api.js';
import { liveRate, runAnswer, stopAnswer, userText } from './answer.js';
import { el, replace } from './dom.js';
import { dateTime, number, t } from './i18n.js';
import { MessageView } from './message.js';
import { applyPreferences, askForKeys, confirmDialog, icon, iconButton, notice, promptDialog } from './page.js';
import { defaultSettings, showHelp, showSettings } from './settings.js';
import { Store } from './store.js';
import { addNode, exported, imported, matches, newConversation, pathOf, root, switchBranch, titleOf } from './tree.js';

const byId = (id) => document.getElementById(id);
const maxFile = 2 << 20; // bytes; the context ends long before

const state = {
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

// --- conversations --------------------------------------------------------------------------------------------------
const isStored = (conversation) => state.conversations.has(conversation.id);

async function save(conversation) {
  if (!isStored(conversation)) return;
  await store.put(structuredClone(conversation)).catch((error) => notice(error.message));
}

function runningNodes(conversation) {
  return Object.values(conversation.nodes).filter((node) => node.status === 'running');
}

function open(conversation) {
  state.current = conversation;
  history.replaceState(null, '', isStored(conversation) ? `#${conversation.id}` : location.pathname);
  document.body.classList.remove('sidebar-open');
  renderAll();
  byId('log').scrollTop = byId('log').scrollHeight;
}

function newChat() {
  open(newConversation(defaultSettings()));
  focusInput();
}

async function removeConversation(conversation) {
  if (!(await confirmDialog(t('removeConversation'), t('remove')))) return;
  for (const node of runningNodes(conversation)) stopAnswer(node);
  state.conversations.delete(conversation.id);
  await store.remove(conversation.id);
  if (state.current === conversation) newChat();
  else renderSidebar();
}

async function removeAll() {
  if (!(await confirmDialog(t('removeAllQuestion'), t('removeAll')))) return;
  for (const conversation of state.conversations.values()) {
    for (const node of runningNodes(conversation)) stopAnswer(node);
    await store.remove(conversation.id);
  }
  state.conversations.clear();
  newChat();
}

async function rename(conversation) {
  const title = await promptDialog(t('renameTitle'), titleOf(conversation));
  if (title === undefined) return;
  conversation.title = title.trim();
  await save(conversation);
  renderSidebar();
  renderHead();
}

function download(conversations, name) {
  const url = URL.createObjectURL(new Blob([exported(conversations)], { type: 'application/json' }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function importFile(file) {
  try {
    const all = imported(await file.text());
    for (const conversation of all) {
      state.conversations.set(conversation.id, conversation);
      await save(conversation);
    }
    announce(t('imported', { n: all.length }));
    if (all.length) open(all[all.length - 1]);
  } catch (error) {
    notice(t('importFailed', { why: error.message }));
  }
}

// --- answers --------------------------------------------------------------------------------------------------------
function answer(conversation, node) {
  let saved = 0,
    frame = 0;
  if (conversation === state.current) renderLog();
  renderComposer();
  announce(t('answering'));
  runAnswer(conversation, node, state.model, (changed, type) => {
    const now = performance.now();
    if (type === 'response.created' || type === 'end' || now - saved > 2000) {
      saved = now;
      save(conversation);
    }
    if (type === 'end') {
      delete node.base;
      conversation.updated = Date.now();
      announce(node.status === 'failed' ? t('failed', { why: node.error }) : t('answered'));
      save(conversation);
      if (conversation === state.current) afterAnswer();
      renderSidebar();
    } else if (!frame) {
      // events come faster than screens
      frame = requestAnimationFrame(() => {
        frame = 0;
        if (conversation === state.current) updateView(node);
      });
    }
  });
}

function afterAnswer() {
  const path = pathOf(state.current);
  keepAtEnd(() => {
    for (const node of path) {
      const view = state.views.get(node.id);
      if (!view) continue;
      view.update();
      view.updateTools(node === path[path.length - 1]);
    }
  });
  renderComposer();
  renderGauge();
}

function updateView(node) {
  const view = state.views.get(node.id);
  if (!view) return;
  keepAtEnd(() => view.update());
  renderGauge();
}

// A reader who is at the end stays there.
function keepAtEnd(change) {
  const log = byId('log');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function keepConversation(conversation) {
  if (isStored(conversation)) return;
  state.conversations.set(conversation.id, conversation);
  history.replaceState(null, '', `#${conversation.id}`);
}

function answerAfter(conversation, parent) {
  answer(conversation, addNode(conversation, parent, { role: 'assistant', status: 'running' }));
}

function lastNode(conversation) {
  const path = pathOf(conversation);
  return path[path.length - 1];
}

function sendMessage() {
  const conversation = state.current,
    input = byId('input'),
    text = input.value.trim();
  if ((!text && !state.files.length) || isRunning() || !state.ready) return;
  keepConversation(conversation);
  const last = lastNode(conversation);
  const node = addNode(conversation, last ? last.id : root, {
    role: 'user',
    content: text,
    ...(state.files.length ? { files: state.files } : {}),
  });
  input.value = '';
  state.files = [];
  state.draftTokens = 0;
  sizeInput();
  answerAfter(conversation, node.id);
  save(conversation);
  renderSidebar();
  renderHead();
  byId('log').scrollTop = byId('log').scrollHeight;
}

const isRunning = () => pathOf(state.current).some((node) => node.status === 'running');

function stop() {
  for (const node of runningNodes(state.current)) stopAnswer(node);
}

const actions = {
  regenerate(node) {
    if (!isRunning()) answerAfter(state.current, node.parent);
  },
  continue(node) {
    if (isRunning()) return;
    node.content = node.content.trimEnd();
    node.base = { content: node.content, reasoning: node.reasoning };
    node.status = 'running';
    answer(state.current, node);
  },
  edit(node, text) {
    const conversation = state.current;
    const { role, files } = node;
    const copy = addNode(conversation, node.parent, {
      role,
      content: text,
      ...(files ? { files } : {}),
      ...(role === 'assistant' ? { status: 'done', reasoning: node.reasoning } : {}),
    });
    save(conversation);
    if (role === 'user') answerAfter(conversation, copy.id);
    else renderLog();
    focusMessage(copy);
  },
  switch(node, step) {
    const next = switchBranch(state.current, node, step);
    if (!next) return;
    save(state.current);
    renderLog();
    renderComposer();
    focusMessage(next);
  },
  results(node, texts) {
    let parent = node.id;
    node.calls.forEach(
      (call, i) => (parent = addNode(state.current, parent, { role: 'tool', callId: call.id, content: texts[i] }).id),
    );
    answerAfter(state.current, parent);
  },
};

// --- the log --------------------------------------------------------------------------------------------------------
function renderLog() {
  const log = byId('log'),
    path = pathOf(state.current);
  state.views.clear();
  if (!path.length) {
    replace(log, el('div', { class: 'welcome' }, el('h2', {}, t('welcome')), el('p', {}, t('welcomeText'))));
    renderGauge();
    return;
  }
  const views = path.map((node) => new MessageView(state.current, node, actions));
  path.forEach((node, i) => state.views.set(node.id, views[i]));
  views[views.length - 1].updateTools(true);
  replace(
    log,
    el(
      'div',
      { class: 'messages' },
      views.map((view) => view.article),
    ),
  );
  renderGauge();
}

function focusMessage(node) {
  const view = state.views.get(node.id);
  if (view) view.article.focus({ preventScroll: false });
}

function focusedView() {
  const article = document.activeElement && document.activeElement.closest('article');
  return article ? [...state.views.values()].find((view) => view.article === article) : null;
}

function moveFocus(step) {
  const views = [...state.views.values()];
  if (!views.length) return;
  const at = views.indexOf(focusedView());
  const next = views[at < 0 ? views.length - 1 : Math.max(0, Math.min(views.length - 1, at + step))];
  next.article.focus();
  next.article.scrollIntoView({ block: 'nearest' });
}

// --- the sides ------------------------------------------------------------------------------------------------------
function renderSidebar() {
  const sidebar = byId('sidebar');
  const list = [...state.conversations.values()]
    .filter((one) => matches(one, state.query))
    .sort((a, b) => b.updated - a.updated);
  if (!byId('conversations')) {
    const pick = el('input', {
      'type': 'file',
      'accept': 'application/json,.json',
      'class': 'offscreen',
      'tabindex': '-1',
      'aria-label': t('import'),
      'id': 'import',
    });
    pick.addEventListener('change', () => {
      if (pick.files[0]) importFile(pick.files[0]);
      pick.value = '';
    });
    const search = el('input', {
      'type': 'search',
      'id': 'search',
      'placeholder': t('search'),
      'aria-label': t('search'),
      'value': state.query,
    });
    search.addEventListener('input', () => {
      state.query = search.value;
      renderSidebar();
    });
    const button = (key, click, props) => el('button', { type: 'button', on: { click }, ...props }, t(key));
    replace(
      sidebar,
      el(
        'div',
        { class: 'side-head' },
        el('span', { class: 'brand' }, 'heddle'),
        iconButton('plus', t('newChat'), newChat, { id: 'new-chat' }),
      ),
      search,
      el('nav', { 'aria-label': t('conversations'), 'id': 'conversations' }),
      el(
        'div',
        { class: 'side-foot' },
        el('a', { href: '/status' }, icon('chart'), t('status')),
        el('button', { type: 'button', on: { click: openSettings }, id: 'settings' }, icon('settings'), t('settings')),
        el('button', { type: 'button', on: { click: showHelp } }, icon('help'), t('help')),
        el(
          'details',
          { class: 'more' },
          el('summary', {}, icon('more'), t('more')),
          button('exportOne', () => isStored(state.current) && download([state.current], 'conversation.json'), {
            id: 'export-one',
          }),
          button('exportAll', () => download([...state.conversations.values()], 'conversations.json'), {
            id: 'export-all',
          }),
          button('import', () => pick.click()),
          pick,
          button('removeAll', removeAll),
        ),
      ),
    );
  }
  const items = list.map((one) =>
    el(
      'li',
      { class: one === state.current ? 'current' : '' },
      el(
        'button',
        {
          'type': 'button',
          'class': 'conversation',
          'aria-current': one === state.current ? 'page' : null,
          'title': dateTime(one.updated),
          'on': { click: () => open(one) },
        },
        el('span', {}, titleOf(one) || t('untitled')),
        runningNodes(one).length ? el('span', { 'class': 'dot', 'role': 'img', 'aria-label': t('answering') }) : null,
      ),
      iconButton('edit', `${t('rename')}: ${titleOf(one)}`, () => rename(one)),
      iconButton('trash', `${t('remove')}: ${titleOf(one)}`, () => removeConversation(one)),
    ),
  );
  replace(
    byId('conversations'),
    items.length
      ? el('ul', {}, items)
      : el('p', { class: 'empty' }, t(state.query ? 'nothingFound' : 'noConversations')),
  );
}

function modelState(model) {
  const status = model.status && typeof model.status === 'object' ? model.status.value : model.status;
  return status || 'loaded';
}
function stateText(model) {
  const known = { loading: 'modelLoading', loaded: 'modelLoaded', unloaded: 'modelUnloaded', failed: 'modelFailed' };
  const status = modelState(model);
  return status === 'loaded' ? '' : ` (${known[status] ? t(known[status]) : status})`;
}
const currentModel = () => state.models.find((model) => model.id === state.model);
const contextOf = () => (currentModel() || {}).max_model_len || 0;

function renderHead() {
  const picker = el('select', { 'aria-label': t('model'), 'id': 'model', 'disabled': !state.models.length });
  picker.append(
    ...(state.models.length
      ? state.models.map((model) =>
          el('option', { value: model.id, selected: model.id === state.model }, model.id + stateText(model)),
        )
      : [el('option', {}, t('noModel'))]),
  );
  picker.addEventListener('change', () => {
    state.model = picker.value;
    localStorage.setItem('heddle-model', state.model);
    renderHead();
    renderGauge();
  });
  const status = state.ready ? (currentModel() ? modelState(currentModel()) : 'loaded') : 'loading';
  replace(
    byId('head'),
    iconButton('menu', t('menu'), toggleSidebar, { id: 'menu' }),
    el('h1', {}, titleOf(state.current) || t('untitled')),
    el('div', { class: 'model' }, el('span', { 'class': `dot ${status}`, 'aria-hidden': 'true' }), picker),
    el('div', { 'id': 'gauge', 'class': 'gauge', 'role': 'meter', 'aria-valuemin': '0', 'tabindex': '-1' }),
  );
  document.title = `${titleOf(state.current) || t('newChat')} - heddle`;
  renderGauge();
}

// How much of the context the conversation takes, with what is being written.
function renderGauge() {
  const gauge = byId('gauge'),
    all = contextOf();
  if (!gauge) return;
  gauge.hidden = !all;
  if (!all) return;
  const path = pathOf(state.current).filter((node) => node.usage);
  const last = path[path.length - 1],
    running = pathOf(state.current).find((node) => node.status === 'running');
  const used = Math.min(
    all,
    (last ? last.usage.input + last.usage.output : 0) +
      (running && running.run ? running.run.tokens || 0 : 0) +
      state.draftTokens,
  );
  const text = t('context', { used: number(used), all: number(all) });
  for (const [name, value] of [
    ['aria-label', t('context', { used: '', all: '' }).split(':')[0]],
    ['aria-valuemax', all],
    ['aria-valuenow', used],
    ['aria-valuetext', text],
    ['title', text],
  ])
    gauge.setAttribute(name, value);
  gauge.classList.toggle('full', used > 0.9 * all);
  const rate = running ? liveRate(running) : 0;
  replace(
    gauge,
    el(
      'span',
      { class: 'gauge-text' },
      rate ? t('tokensPerSecond', { rate: number(rate, 1) }) : `${number(used)} / ${number(all)}`,
    ),
    el('span', { class: 'bar' }, el('span', { style: { width: `${(100 * used) / all}%` } })),
  );
}

function toggleSidebar() {
  const narrow = matchMedia('(max-width: 760px)').matches;
  document.body.classList.toggle(narrow ? 'sidebar-open' : 'sidebar-closed');
  if (narrow && document.body.classList.contains('sidebar-open')) byId('new-chat').focus();
}

// --- the composer ---------------------------------------------------------------------------------------------------
function renderComposer() {
  const composer = byId('composer'),
    running = isRunning();
  if (!byId('input')) {
    const input = el('textarea', {
      'id': 'input',
      'rows': '1',
      'placeholder': t('placeholder'),
      'aria-label': t('message'),
    });
    input.addEventListener('input', () => {
      sizeInput();
      countDraft();
    });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        sendMessage();
      }
    });
    const pick = el('input', {
      'type': 'file',
      'multiple': true,
      'class': 'offscreen',
      'tabindex': '-1',
      'id': 'files',
      'aria-label': t('attach'),
    });
    pick.addEventListener('change', () => {
      attach([...pick.files]);
      pick.value = '';
    });
    replace(
      composer,
      el(
        'div',
        { class: 'composer-inner' },
        el('ul', { id: 'attached', class: 'files' }),
        el(
          'div',
          { class: 'line' },
          iconButton('attach', t('attach'), () => pick.click()),
          pick,
          input,
          el('button', { type: 'submit', id: 'send', class: 'primary round' }),
        ),
      ),
    );
    composer.addEventListener('submit', (event) => {
      event.preventDefault();
      if (isRunning()) stop();
      else sendMessage();
    });
  }
  const send = byId('send'),
    label = t(running ? 'stop' : 'send');
  send.setAttribute('aria-label', label);
  send.title = label;
  send.disabled = !state.ready;
  send.classList.toggle('stops', running);
  replace(send, icon(running ? 'stop' : 'send'));
  replace(
    byId('attached'),
    state.files.map((file) =>
      el(
        'li',
        {},
        icon('file'),
        file.name,
        iconButton('close', t('detach', { name: file.name }), () => {
          state.files = state.files.filter((one) => one !== file);
          renderComposer();
          countDraft();
        }),
      ),
    ),
  );
  byId('attached').hidden = !state.files.length;
}

function sizeInput() {
  const input = byId('input');
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, 260)}px`;
}
const focusInput = () => byId('input').focus();

async function attach(files) {
  for (const file of files) {
    const text = file.size > maxFile ? '' : await file.text();
    if (file.size > maxFile) notice(t('tooLarge', { name: file.name, size: `${maxFile >> 20} MB` }));
    else if (text.includes('\0') || text.includes('\ufffd')) notice(t('notText', { name: file.name }));
    else {
      state.files = [...state.files, { name: file.name, text }];
      announce(t('attached', { name: file.name }));
    }
  }
  renderComposer();
  countDraft();
  focusInput();
}

let counting;
function countDraft() {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    const text = userText({ content: byId('input').value, files: state.files });
    try {
      state.draftTokens =
        text && state.ready
          ? (await postJson('/tokenize', { content: text.slice(0, 1 << 20), model: state.model })).tokens.length
          : 0;
    } catch {
      state.draftTokens = Math.ceil(text.length / 4);
    }
    renderGauge();
  }, 400);
}

function announce(text) {
  byId('announce').textContent = text;
}

async function openSettings() {
  const saved = await showSettings(state.current, { limits: state.limits, context: contextOf(), repaint: renderAll });
  if (!saved) return;
  await save(state.current);
  renderAll();
}

// Everything again: another conversation, or another language.
function renderAll() {
  const draft = byId('input') ? byId('input').value : '';
  byId('skip').textContent = t('skip');
  replace(byId('sidebar'));
  replace(byId('composer'));
  renderSidebar();
  renderHead();
  renderLog();
  const composer = byId('composer');
  composer.replaceWith(composer.cloneNode(false)); // without its old listeners
  renderComposer();
  byId('input').value = draft;
  sizeInput();
}

// --- the server -----------------------------------------------------------------------------------------------------
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

// --- keys -----------------------------------------------------------------------------------------------------------
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

// --- the beginning --------------------------------------------------------------------------------------------------
async function start() {
  applyPreferences();
  askForKeys();
  store = await Store.open();
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
