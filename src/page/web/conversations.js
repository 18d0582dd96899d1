// Conversations: opened, begun, renamed, removed, written to files and read from them.
import { stopAnswer } from './answer.js';
import { focusInput, renderComposer, sizeInput } from './composer.js';
import { el, replace } from './dom.js';
import { t } from './i18n.js';
import { renderLog } from './log.js';
import { confirmDialog, notice, promptDialog } from './page.js';
import { defaultSettings, showSettings } from './settings.js';
import { renderHead, renderSidebar } from './sidebar.js';
import { announce, byId, contextOf, isStored, removeStored, runningNodes, save, state } from './state.js';
import { exported, imported, newConversation, titleOf } from './tree.js';

export function open(conversation) {
  state.current = conversation;
  history.replaceState(null, '', isStored(conversation) ? `#${conversation.id}` : location.pathname);
  document.body.classList.remove('sidebar-open');
  renderAll();
  byId('log').scrollTop = byId('log').scrollHeight;
}

export function newChat() {
  open(newConversation(defaultSettings()));
  focusInput();
}

export async function removeConversation(conversation) {
  if (!(await confirmDialog(t('removeConversation'), t('remove')))) return;
  for (const node of runningNodes(conversation)) stopAnswer(node);
  state.conversations.delete(conversation.id);
  await removeStored(conversation);
  if (state.current === conversation) newChat();
  else renderSidebar();
}

export async function removeAll() {
  if (!(await confirmDialog(t('removeAllQuestion'), t('removeAll')))) return;
  for (const conversation of state.conversations.values()) {
    for (const node of runningNodes(conversation)) stopAnswer(node);
    await removeStored(conversation);
  }
  state.conversations.clear();
  newChat();
}

export async function rename(conversation) {
  const title = await promptDialog(t('renameTitle'), titleOf(conversation));
  if (title === undefined) return;
  conversation.title = title.trim();
  await save(conversation);
  renderSidebar();
  renderHead();
}

export function download(conversations, name) {
  const url = URL.createObjectURL(new Blob([exported(conversations)], { type: 'application/json' }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export async function importFile(file) {
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

export async function openSettings() {
  const saved = await showSettings(state.current, { limits: state.limits, context: contextOf(), repaint: renderAll });
  if (!saved) return;
  await save(state.current);
  renderAll();
}

// Everything again: another conversation, or another language.
export function renderAll() {
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
