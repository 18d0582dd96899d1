// The messages of the open conversation, the answers to them, and what can be done with each.
import { runAnswer, stopAnswer } from './answer.js';
import { renderComposer, sizeInput } from './composer.js';
import { el, replace } from './dom.js';
import { t } from './i18n.js';
import { MessageView } from './message.js';
import { renderGauge, renderHead, renderSidebar } from './sidebar.js';
import { announce, byId, isRunning, keepConversation, lastNode, runningNodes, save, state } from './state.js';
import { addNode, pathOf, root, switchBranch } from './tree.js';

export function answer(conversation, node) {
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

// If the log is scrolled to its end, it stays there.
function keepAtEnd(change) {
  const log = byId('log');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function answerAfter(conversation, parent) {
  answer(conversation, addNode(conversation, parent, { role: 'assistant', status: 'running' }));
}

export function sendMessage() {
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

export function stop() {
  for (const node of runningNodes(state.current)) stopAnswer(node);
}

export const actions = {
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

export function renderLog() {
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

export function focusedView() {
  const article = document.activeElement && document.activeElement.closest('article');
  return article ? [...state.views.values()].find((view) => view.article === article) : null;
}

export function moveFocus(step) {
  const views = [...state.views.values()];
  if (!views.length) return;
  const at = views.indexOf(focusedView());
  const next = views[at < 0 ? views.length - 1 : Math.max(0, Math.min(views.length - 1, at + step))];
  next.article.focus();
  next.article.scrollIntoView({ block: 'nearest' });
}
