// The dialog of settings: of a conversation, with the limits that the server has, and of the page.
import { el, replace } from './dom.js';
import { languages, number, t } from './i18n.js';
import { dialog, preference, setPreference } from './page.js';
import { apiKey, setApiKey } from './api.js';
import { numbers } from './answer.js';

const efforts = ['', 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

function field(label, control, note) {
  const hint = note ? el('span', { class: 'hint' }, note) : null;
  return el('label', { class: 'field' }, el('span', { class: 'field-name' }, label), control, hint);
}

function select(options, value, change) {
  return el(
    'select',
    { on: { change: (event) => change(event.target.value) } },
    options.map(([key, text]) => el('option', { value: key, selected: key === value }, text)),
  );
}

function numberField(name, label, limit, values) {
  const { min, max, default: normal, whole } = limit;
  const has = (value) => value !== null && value !== undefined;
  const range = has(max)
    ? t('range', { min: number(min, whole ? 0 : min % 1 ? 2 : 0), max: number(max) })
    : has(min)
      ? t('atLeast', { min })
      : '';
  const shown = typeof normal === 'number' ? number(normal, Number.isInteger(normal) ? 0 : 2) : normal;
  const note = [range, has(normal) ? t('defaultValue', { value: shown }) : ''].filter(Boolean).join('; ');
  const input = el('input', {
    type: 'number',
    value: values[name] ?? '',
    min: has(min) ? min : null,
    max: has(max) ? max : null,
    step: whole ? '1' : 'any',
    inputmode: whole ? 'numeric' : 'decimal',
    name,
  });
  input.addEventListener('input', () => (values[name] = input.value));
  return field(label, input, note);
}

function jsonField(name, label, values, expected) {
  const area = el('textarea', { rows: '5', spellcheck: 'false', class: 'mono', name, value: values[name] || '' });
  const problem = el('span', { class: 'problem', role: 'alert' });
  const check = () => {
    values[name] = area.value;
    let why = '';
    if (area.value.trim())
      try {
        const data = JSON.parse(area.value);
        if (
          expected === 'list' ? !Array.isArray(data) : data === null || typeof data !== 'object' || Array.isArray(data)
        )
          why = t(expected === 'list' ? 'expectedList' : 'expectedObject');
      } catch (error) {
        why = t('badJson', { why: error.message });
      }
    area.setCustomValidity(why);
    replace(problem, why);
  };
  area.addEventListener('input', check);
  return el('div', {}, field(label, area), problem);
}

// Changes `conversation.settings`; resolves to true if something was saved.
export function showSettings(conversation, { limits, context, repaint }) {
  const values = { ...conversation.settings };
  return dialog(
    t('settings'),
    (close) => {
      const schema = jsonField('schema', t('schema'), values, 'object');
      const showSchema = () => (schema.hidden = values.format !== 'schema');
      const formats = select(
        [
          ['', t('formatText')],
          ['object', t('formatObject')],
          ['schema', t('formatSchema')],
        ],
        values.format || '',
        (value) => {
          values.format = value;
          showSchema();
        },
      );
      showSchema();
      const asDefault = el('input', { type: 'checkbox' });
      const form = el(
        'form',
        {},
        el('h3', {}, t('forConversation')),
        field(
          t('system'),
          el('textarea', {
            rows: '4',
            name: 'system',
            value: values.system || '',
            on: { input: (event) => (values.system = event.target.value) },
          }),
        ),
        el(
          'div',
          { class: 'grid' },
          numbers.filter((name) => limits[name]).map((name) => numberField(name, name, limits[name], values)),
          numberField(
            'maxTokens',
            t('maxTokens'),
            { min: 1, max: context || null, default: t('untilFull'), whole: true },
            values,
          ),
          numberField('seed', t('seed'), { default: t('random'), whole: true }, values),
          field(
            t('effort'),
            select(
              efforts.map((effort) => [effort, effort || t('asTemplate')]),
              values.effort || '',
              (value) => (values.effort = value),
            ),
          ),
          field(t('format'), formats),
        ),
        schema,
        jsonField('tools', t('tools'), values, 'list'),
        el('label', { class: 'check' }, asDefault, t('asDefault')),
        el('h3', {}, t('forPage')),
        el(
          'div',
          { class: 'grid' },
          field(
            t('theme'),
            select(
              [
                ['auto', t('themeAuto')],
                ['light', t('themeLight')],
                ['dark', t('themeDark')],
              ],
              preference('theme', 'auto'),
              (value) => setPreference('theme', value),
            ),
          ),
          field(
            t('language'),
            select(Object.entries(languages), document.documentElement.lang, (value) => {
              setPreference('language', value);
              repaint();
            }),
          ),
        ),
        apiKey()
          ? el(
              'button',
              {
                type: 'button',
                on: {
                  click: (event) => {
                    setApiKey('', false);
                    event.target.remove();
                  },
                },
              },
              t('forgetKey'),
            )
          : null,
        el(
          'div',
          { class: 'dialog-buttons' },
          el('button', { type: 'button', on: { click: () => close(false) } }, t('cancel')),
          el('button', { type: 'submit', class: 'primary' }, t('save')),
        ),
      );
      form.addEventListener('submit', (event) => {
        event.preventDefault();
        if (values.format === 'schema' && !(values.schema || '').trim()) values.format = '';
        conversation.settings = Object.fromEntries(
          Object.entries(values).filter(([, value]) => value !== '' && value !== undefined),
        );
        if (asDefault.checked) localStorage.setItem('heddle-defaults', JSON.stringify(conversation.settings));
        close(true);
      });
      return form;
    },
    { class: 'wide' },
  );
}

export function defaultSettings() {
  try {
    return JSON.parse(localStorage.getItem('heddle-defaults')) || {};
  } catch {
    return {};
  }
}

export function showHelp() {
  const keys = (...names) => names.map((name, i) => [i ? ' ' : '', el('kbd', {}, name)]);
  const line = (names, key) => el('tr', {}, el('td', {}, keys(...names)), el('td', {}, t(key)));
  return dialog(t('help'), () =>
    el(
      'div',
      {},
      el(
        'table',
        { class: 'keys' },
        el(
          'tbody',
          {},
          line(['Enter'], 'sendHelp'),
          line(['Shift', 'Enter'], 'lineHelp'),
          line(['Esc'], 'stopHelp'),
          line(['/'], 'composeHelp'),
          line(['Alt', 'N'], 'newHelp'),
          line(['Ctrl', 'K'], 'searchHelp'),
          line(['Alt', '↑ ↓'], 'conversationHelp'),
          line(['J', 'K'], 'messageHelp'),
          line(['Alt', ','], 'settingsHelp'),
          line(['Alt', 'B'], 'menuHelp'),
          line(['?'], 'helpHelp'),
        ),
      ),
      el('h3', {}, t('onMessage')),
      el(
        'table',
        { class: 'keys' },
        el(
          'tbody',
          {},
          line(['C'], 'copy'),
          line(['E'], 'edit'),
          line(['R'], 'regenerate'),
          line(['G'], 'continue'),
          line(['[', ']'], 'branchHelp'),
          line(['T'], 'thoughtHelp'),
        ),
      ),
    ),
  );
}
