// The operators' view: what /metrics says over time, and where the time of single requests went.
import { getJson, request } from './api.js';
import { histogram, lineChart, quantile } from './charts.js';
import { el, replace, svg } from './dom.js';
import { duration, number, t } from './i18n.js';
import { applyPreferences, askForKeys, dialog, icon, notice } from './page.js';
import { histogramOf, modelsOf, parseMetrics, sum } from './prometheus.js';

const byId = (id) => document.getElementById(id);
const period = 2000,
  kept = 300; // ms; samples, together ten minutes
const state = { samples: [], traces: null, model: '', paused: false, models: [] };

const rate = (name, labels) => (from, to) =>
  Math.max(0, sum(to.metrics, name, labels, state.model) - sum(from.metrics, name, labels, state.model)) /
  ((to.time - from.time) / 1000);
const gauge = (name, labels) => (_, to) => sum(to.metrics, name, labels, state.model);

// A value for each sample but the first; x is seconds before the last.
function over(read) {
  const { samples } = state,
    last = samples[samples.length - 1].time;
  return samples.slice(1).map((sample, i) => [(sample.time - last) / 1000, read(samples[i], sample)]);
}
const latest = (points) => (points.length ? points[points.length - 1][1] : 0);

function span() {
  const { samples } = state;
  const seconds = samples.length ? (samples[samples.length - 1].time - samples[0].time) / 1000 : 0;
  return [60, 120, 300, 600].find((one) => one >= seconds) || 600;
}
const ago = (seconds) =>
  seconds === 0 ? '0' : seconds % 60 ? `-${number(-seconds)} s` : `-${number(-seconds / 60)} min`;
const short = (value) =>
  value >= 1e6
    ? `${number(value / 1e6, 1)}M`
    : value >= 1e4
      ? `${number(value / 1e3)}k`
      : value >= 1000
        ? `${number(value / 1e3, 1)}k`
        : number(value, value && value < 10 && value % 1 ? 1 : 0);
const percent = (value) => `${number(value, value && value < 10 && value % 1 ? 1 : 0)} %`;

// Of a chart in its panel, in pixels.
function chartWidth() {
  const panels = byId('panels'),
    columns = getComputedStyle(panels).gridTemplateColumns.split(' ').length;
  return Math.max(200, Math.round((panels.clientWidth - 12 * (columns - 1)) / columns - 34));
}

function chart(title, series, options = {}) {
  return el(
    'div',
    { class: 'panel' },
    lineChart(title, series, { format: short, formatX: ago, span: span(), width: chartWidth(), ...options }),
  );
}

// Of the time that is shown, if something happened in it, else since the server started.
function distribution(title, name) {
  const { samples } = state;
  const now = histogramOf(samples[samples.length - 1].metrics, name, state.model),
    before = histogramOf(samples[0].metrics, name, state.model);
  const recent = now.counts.map((count, i) => count - (before.counts[i] || 0));
  const isRecent = samples.length > 1 && recent.some((count) => count > 0) && recent.every((count) => count >= 0);
  const counts = isRecent ? recent : now.counts,
    all = counts.reduce((a, b) => a + b, 0);
  const of = (q) => duration(quantile(now.bounds, counts, q));
  const when = isRecent ? t('lastMinutes', { n: number(span() / 60) }) : t('sinceStart');
  const note = all ? `${t('median')} ${of(0.5)}, p99 ${of(0.99)}, ${t('count')} ${number(all)} (${when})` : '';
  return el(
    'div',
    { class: 'panel' },
    histogram(title, now.bounds, counts, { format: duration, note, empty: t('noData'), width: chartWidth() }),
  );
}

function render() {
  const { samples } = state;
  if (!samples.length) return;
  const running = over(gauge('heddle_requests_running')),
    waiting = over(gauge('heddle_requests_waiting')),
    generated = over(rate('heddle_generated_tokens_total'));
  const computed = over(rate('heddle_prompt_tokens_total', { source: 'computed' })),
    cached = over(rate('heddle_prompt_tokens_total', { source: 'cached' }));
  const blocks = (name) => (_, to) => {
    const all = sum(to.metrics, 'heddle_kv_blocks', { state: 'all' }, state.model);
    return all ? (100 * sum(to.metrics, 'heddle_kv_blocks', { state: name }, state.model)) / all : 0;
  };
  const inUse = over(blocks('in_use')),
    reusable = over(blocks('cached'));
  const hits = over((from, to) => {
    // of the prompts that began since the last sample
    const found = rate('heddle_prompt_tokens_total', { source: 'cached' })(from, to),
      other = rate('heddle_prompt_tokens_total', { source: 'computed' })(from, to);
    return found + other ? (100 * found) / (found + other) : 0;
  });
  const now = samples[samples.length - 1].metrics;
  const prompts = (source) => sum(now, 'heddle_prompt_tokens_total', { source }, state.model);
  const status = (low, high) => (from, to) => {
    const count = (metrics) =>
      (metrics.get('heddle_http_requests_total') || [])
        .filter(
          ({ labels }) =>
            labels.status >= low &&
            labels.status < high &&
            !['/metrics', '/v1/traces'].includes(labels.path) &&
            !labels.path.startsWith('/page'),
        )
        .reduce((all, one) => all + one.value, 0);
    return Math.max(0, count(to.metrics) - count(from.metrics)) / ((to.time - from.time) / 1000);
  };
  const tile = (name, value) => el('div', { class: 'tile' }, el('dt', {}, name), el('dd', {}, value));
  const share =
    prompts('cached') + prompts('computed') ? (100 * prompts('cached')) / (prompts('cached') + prompts('computed')) : 0;
  replace(
    byId('tiles'),
    tile(t('running'), number(sum(now, 'heddle_requests_running', {}, state.model))),
    tile(t('queued'), number(sum(now, 'heddle_requests_waiting', {}, state.model))),
    tile(t('throughput'), number(latest(generated))),
    tile(t('kvUse'), percent(latest(inUse))),
    tile(t('prefixHits'), percent(Math.round(share))),
  );
  replace(
    byId('panels'),
    chart(
      t('requestsText'),
      [
        { name: t('running'), points: running },
        { name: t('queued'), points: waiting },
      ],
      { max: 1 },
    ),
    chart(t('throughput'), [
      { name: t('generated'), points: generated },
      { name: t('promptComputed'), points: computed },
      { name: t('promptCached'), points: cached },
    ]),
    distribution(t('timeToFirst'), 'heddle_time_to_first_token_seconds'),
    distribution(t('timeBetween'), 'heddle_inter_token_seconds'),
    distribution(t('timeQueue'), 'heddle_queue_seconds'),
    chart(
      t('kvUse'),
      [
        { name: t('inUse'), points: inUse },
        { name: t('cached'), points: reusable },
      ],
      { format: percent, max: 10 },
    ),
    chart(t('prefixHits'), [{ name: t('share'), points: hits }], { format: percent, max: 10 }),
    chart(
      t('httpRequests'),
      [
        { name: t('successes'), points: over(status(200, 400)) },
        { name: t('errors'), points: over(status(400, 600)) },
      ],
      { max: 1 },
    ),
  );
}

// --- single requests ------------------------------------------------------------------------------------------------
// The phases of a request in ms, one after the other, from its trace.
export function phases(entry) {
  const { trace } = entry;
  if (!trace) return [['other', entry.total_ms]];
  const prepare = trace.waiting_ms + trace.parse_ms + trace.template_ms + trace.tokenize_ms;
  const first = trace.completions.reduce(
    (longest, one) =>
      !longest ||
      one.queue_ms + one.prompt_ms + one.generation_ms > longest.queue_ms + longest.prompt_ms + longest.generation_ms
        ? one
        : longest,
    null,
  );
  const parts = [
    ['prepare', prepare],
    ...(first
      ? [
          ['queue', first.queue_ms],
          ['prompt', first.prompt_ms],
          ['generate', first.generation_ms],
        ]
      : []),
  ];
  const rest = entry.total_ms - parts.reduce((all, [, ms]) => all + ms, 0);
  return rest > 0 ? [...parts, ['other', rest]] : parts;
}
const phaseNames = () => ({
  prepare: t('phasePrepare'),
  queue: t('phaseQueue'),
  prompt: t('phasePrompt'),
  generate: t('phaseGenerate'),
  other: t('phaseOther'),
});

function segments(entry, longest) {
  let at = 0;
  const names = phaseNames();
  const parts = phases(entry).map(([name, ms]) => {
    const rect = svg(
      'rect',
      {
        class: name,
        x: (1000 * at) / longest,
        y: 0,
        width: Math.max(ms > 0 ? 1 : 0, (1000 * ms) / longest),
        height: 10,
      },
      svg('title', {}, `${names[name]}: ${duration(ms / 1000)}`),
    );
    at += ms;
    return rect;
  });
  return svg(
    'svg',
    {
      'class': 'segments',
      'viewBox': '0 0 1000 10',
      'preserveAspectRatio': 'none',
      'role': 'img',
      'aria-label': phases(entry)
        .map(([name, ms]) => `${names[name]} ${duration(ms / 1000)}`)
        .join(', '),
    },
    parts,
  );
}

function showRequest(entry) {
  const names = phaseNames();
  const row = (name, value) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value));
  dialog(entry.id, () =>
    el(
      'div',
      {},
      segments(entry, entry.total_ms || 1),
      el(
        'table',
        { class: 'figures-table' },
        el(
          'tbody',
          {},
          row(t('time'), new Date(entry.time).toLocaleTimeString()),
          row(t('path'), entry.path),
          row(t('status'), `${entry.status} ${(entry.finish_reasons || []).join(', ')}`),
          entry.model ? row(t('model'), entry.model) : null,
          row(
            t('prompt'),
            `${t('tokens', { n: number(entry.prompt_tokens) })} (${t('promptCached')}: ${number(entry.cached_tokens)})`,
          ),
          row(t('answer'), t('tokens', { n: number(entry.completion_tokens) })),
          phases(entry).map(([name, ms]) => row(names[name], duration(ms / 1000))),
          entry.first_token_ms ? row(t('timeToFirst'), duration(entry.first_token_ms / 1000)) : null,
          row(t('total'), duration(entry.total_ms / 1000)),
          entry.error ? row(t('errors'), entry.error) : null,
        ),
      ),
    ),
  );
}

function renderTraces() {
  const { traces } = state;
  if (!traces) return;
  const shown = traces.data.filter((entry) => !state.model || !entry.model || entry.model === state.model).slice(0, 25),
    running = traces.in_progress.filter((entry) => entry.total_ms > 100);
  const longest = Math.max(1, ...shown.map((entry) => entry.total_ms), ...running.map((entry) => entry.total_ms));
  const names = phaseNames();
  const cells = (...texts) => texts.map((text) => el('td', { class: 'number' }, text));
  const rows = [
    ...running.map((entry) =>
      el(
        'tr',
        {},
        el('td', {}, t('inProgress')),
        el('td', {}, entry.path),
        cells('', '', duration(entry.total_ms / 1000)),
        el('td', { class: 'track' }, segments(entry, longest)),
      ),
    ),
    ...shown.map((entry) =>
      el(
        'tr',
        { class: entry.status >= 400 ? 'failed' : '' },
        el(
          'td',
          {},
          el(
            'button',
            { type: 'button', class: 'row', on: { click: () => showRequest(entry) } },
            new Date(entry.time).toLocaleTimeString(),
          ),
        ),
        el('td', {}, entry.path),
        cells(number(entry.prompt_tokens), number(entry.completion_tokens), duration(entry.total_ms / 1000)),
        el('td', { class: 'track' }, segments(entry, longest)),
      ),
    ),
  ];
  const head = [t('time'), t('path'), t('prompt'), t('answer'), t('total'), ''].map((text, i) =>
    el(text ? 'th' : 'td', { scope: text ? 'col' : null, class: i > 1 && i < 5 ? 'number' : null }, text),
  );
  const focused =
    document.activeElement && document.activeElement.matches('#waterfall .row')
      ? document.activeElement.textContent
      : null;
  replace(
    byId('waterfall'),
    el('h2', {}, t('waterfall')),
    el('p', { class: 'note' }, t('waterfallText')),
    el(
      'ul',
      { class: 'legend phases' },
      Object.values(names).map((name) => el('li', {}, name)),
    ),
    rows.length
      ? el('table', {}, el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows))
      : el('p', { class: 'no-data' }, t('noTraces')),
  );
  const again = focused && [...document.querySelectorAll('#waterfall .row')].find((one) => one.textContent === focused);
  if (again) again.focus();
}

// --- the page -------------------------------------------------------------------------------------------------------
function renderHead() {
  const pause = el(
    'button',
    {
      type: 'button',
      id: 'pause',
      on: {
        click: () => {
          state.paused = !state.paused;
          renderHead();
          byId('pause').focus();
        },
      },
    },
    t(state.paused ? 'resume' : 'pause'),
  );
  const picker =
    state.models.length > 1
      ? el(
          'select',
          {
            'aria-label': t('model'),
            'on': {
              change: (event) => {
                state.model = event.target.value;
                render();
                renderTraces();
              },
            },
          },
          [
            el('option', { value: '' }, t('allModels')),
            ...state.models.map((name) => el('option', { value: name, selected: name === state.model }, name)),
          ],
        )
      : null;
  const info = state.samples.length
    ? (state.samples[state.samples.length - 1].metrics.get('heddle_info') || [{ labels: {} }])[0].labels
    : {};
  replace(
    byId('head'),
    el('h1', {}, t('status'), info.model ? el('span', { class: 'note' }, info.model) : null),
    picker,
    pause,
    el('a', { href: '/' }, icon('chat'), t('backToChat')),
  );
  document.title = `${t('status')} - heddle`;
}

async function sample() {
  const metrics = parseMetrics(await (await request('/metrics')).text());
  state.samples.push({ time: performance.now(), metrics });
  if (state.samples.length > kept) state.samples.shift();
  const models = modelsOf(metrics);
  if (state.samples.length === 1 || models.join() !== state.models.join()) {
    state.models = models;
    renderHead();
  }
  state.traces = await getJson('/v1/traces');
}

async function watch() {
  for (;;) {
    if (!state.paused && !document.hidden)
      try {
        await sample();
        notice('');
        render();
        renderTraces();
      } catch (error) {
        notice(error.status ? error.message : t('serverGone'));
      }
    await new Promise((resolve) => setTimeout(resolve, period));
  }
}

applyPreferences();
askForKeys();
renderHead();
watch();
