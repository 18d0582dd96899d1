// The conversations at the side, and above the messages the model and how full its context is.
import { liveRate } from './answer.js';
import {
  download,
  importFile,
  newChat,
  open,
  openSettings,
  removeAll,
  removeConversation,
  rename,
} from './conversations.js';
import { el, replace } from './dom.js';
import { dateTime, number, t } from './i18n.js';
import { icon, iconButton } from './page.js';
import { showHelp } from './settings.js';
import { byId, contextOf, currentModel, isStored, modelState, runningNodes, state } from './state.js';
import { matches, pathOf, titleOf } from './tree.js';

export function renderSidebar() {
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

function stateText(model) {
  const known = { loading: 'modelLoading', loaded: 'modelLoaded', unloaded: 'modelUnloaded', failed: 'modelFailed' };
  const status = modelState(model);
  return status === 'loaded' ? '' : ` (${known[status] ? t(known[status]) : status})`;
}
export function renderHead() {
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
export function renderGauge() {
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

export function toggleSidebar() {
  const narrow = matchMedia('(max-width: 760px)').matches;
  document.body.classList.toggle(narrow ? 'sidebar-open' : 'sidebar-closed');
  if (narrow && document.body.classList.contains('sidebar-open')) byId('new-chat').focus();
}
