// What both views share: the appearance, the language, icons, dialogs and the API key.
import { el, replace, svg } from './dom.js';
import { chooseLanguage, languages, t } from './i18n.js';
import { onKeyNeeded, setApiKey } from './api.js';

const read = (name, otherwise) => localStorage.getItem(`heddle-${name}`) || otherwise;
export function setPreference(name, value) {
  localStorage.setItem(`heddle-${name}`, value);
  applyPreferences();
}
export const preference = read;

export function applyPreferences() {
  const theme = read('theme', 'auto');
  const dark = theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  const own = (navigator.languages || []).map((one) => one.slice(0, 2)).find((one) => languages[one]);
  document.documentElement.lang = chooseLanguage(read('language', own || 'en'));
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyPreferences);

const paths = {
  plus: 'M8 3v10M3 8h10',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  send: 'M8 13V3M3.5 7.5 8 3l4.5 4.5',
  stop: 'M4.5 4.5h7v7h-7z',
  attach: 'M10.5 5 6 9.5a1.4 1.4 0 0 0 2 2l5-5a2.8 2.8 0 0 0-4-4l-5.2 5.2a4.2 4.2 0 0 0 6 6L13 10.5',
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z',
  edit: 'M3 13l.7-2.8L10.5 3.4l2.1 2.1-6.8 6.8z',
  retry: 'M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3',
  go: 'M4 3.5l7 4.5-7 4.5z',
  left: 'M10 3.5 5.5 8l4.5 4.5',
  right: 'M6 3.5 10.5 8 6 12.5',
  close: 'M4 4l8 8M12 4l-8 8',
  settings:
    'M2.5 5h6M12 5h1.5M2.5 11H4M7.5 11h6M10.3 6.7a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z' +
    'M5.7 12.7a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  help: 'M6 6.2a2 2 0 1 1 2.9 1.8c-.6.3-.9.7-.9 1.4M8 11.8v.1',
  trash: 'M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  done: 'M3 8.5 6.5 12 13 4.5',
  chat: 'M2.5 3.5h11v7.5H7l-3 2.5V11H2.5z',
  file: 'M4 2.5h5l3 3v8H4zM9 2.5v3h3',
};
export function icon(name) {
  return svg(
    'svg',
    {
      'viewBox': '0 0 16 16',
      'width': '16',
      'height': '16',
      'fill': 'none',
      'stroke': 'currentColor',
      'stroke-width': name === 'more' ? '2' : '1.4',
      'stroke-linecap': 'round',
      'stroke-linejoin': 'round',
      'aria-hidden': 'true',
    },
    svg('path', { d: paths[name] }),
  );
}
export function iconButton(name, label, click, props = {}) {
  return el(
    'button',
    { 'type': 'button', 'class': 'icon', 'aria-label': label, 'title': label, 'on': { click }, ...props },
    icon(name),
  );
}

// A modal dialog. `build(close)` returns its content; resolves to what `close` was called with, undefined if it was
// left.
export function dialog(title, build, props = {}) {
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      box.close();
    };
    const heading = el('h2', { id: `dialog-${Math.random().toString(36).slice(2)}` }, title);
    const box = el(
      'dialog',
      { 'aria-labelledby': heading.id, ...props },
      el(
        'div',
        { class: 'dialog-head' },
        heading,
        iconButton('close', t('close'), () => close()),
      ),
    );
    box.append(build(close));
    box.addEventListener('close', () => {
      box.remove();
      resolve(result);
    });
    box.addEventListener('click', (event) => event.target === box && close());
    document.body.append(box);
    box.showModal();
    const first = box.querySelector('[autofocus]');
    if (first) first.focus();
  });
}

export function confirmDialog(question, yes) {
  return dialog(question, (close) =>
    el(
      'div',
      { class: 'dialog-buttons' },
      el('button', { type: 'button', on: { click: () => close(false) } }, t('cancel')),
      el('button', { type: 'button', class: 'primary danger', autofocus: true, on: { click: () => close(true) } }, yes),
    ),
  );
}

export function promptDialog(title, value) {
  return dialog(title, (close) => {
    const input = el('input', { 'type': 'text', value, 'autofocus': true, 'maxlength': '200', 'aria-label': title });
    return el(
      'form',
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            close(input.value);
          },
        },
      },
      input,
      el(
        'div',
        { class: 'dialog-buttons' },
        el('button', { type: 'button', on: { click: () => close() } }, t('cancel')),
        el('button', { type: 'submit', class: 'primary' }, t('ok')),
      ),
    );
  });
}

let asking = null; // one dialog for all requests that wait for a key
export function askForKeys() {
  onKeyNeeded((wasWrong) => {
    asking =
      asking ||
      dialog(
        t('key'),
        (close) => {
          const input = el('input', {
            'type': 'password',
            'autofocus': true,
            'autocomplete': 'current-password',
            'aria-label': t('key'),
          });
          const keep = el('input', { type: 'checkbox' });
          const submit = (event) => {
            event.preventDefault();
            setApiKey(input.value.trim(), keep.checked);
            close(input.value.trim() !== '');
          };
          return el(
            'form',
            { on: { submit } },
            el('p', {}, wasWrong ? t('keyWrong') : t('keyText')),
            input,
            el('label', { class: 'check' }, keep, t('keyKeep')),
            el(
              'div',
              { class: 'dialog-buttons' },
              el('button', { type: 'button', on: { click: () => close() } }, t('cancel')),
              el('button', { type: 'submit', class: 'primary' }, t('ok')),
            ),
          );
        },
        { class: 'small' },
      ).finally(() => (asking = null));
    return asking;
  });
}

// A line at the top that says what is wrong; empty: it goes.
export function notice(text) {
  const place = document.getElementById('notice');
  place.hidden = !text;
  replace(place, text || '');
}
