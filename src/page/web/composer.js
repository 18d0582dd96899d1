// The field to write in: the text, the files beside it, and how many tokens they are.
import { postJson } from './api.js';
import { userText } from './answer.js';
import { el, replace } from './dom.js';
import { t } from './i18n.js';
import { sendMessage, stop } from './log.js';
import { icon, iconButton, notice } from './page.js';
import { renderGauge } from './sidebar.js';
import { announce, byId, isRunning, state } from './state.js';

const maxFile = 2 << 20; // bytes; the context ends long before

export function renderComposer() {
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

export function sizeInput() {
  const input = byId('input');
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, 260)}px`;
}
export const focusInput = () => byId('input').focus();

export async function attach(files) {
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
