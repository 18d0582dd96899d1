// Charts as SVG: lines over time, histograms, bars, and a waterfall. Colours come from the style sheet.
import { el, svg } from './dom.js';

// Round numbers from 0 to at least `max`, about `count` of them.
export function ticks(max, count = 4) {
  if (!(max > 0)) return [0, 1];
  const rough = max / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const out = [];
  for (let i = 0; i === 0 || out[out.length - 1] < max * 0.999; ++i) out.push(Number((i * step).toPrecision(12)));
  return out;
}

// `width` in pixels of the screen, so that letters have their size.
const frameOf = (width) => ({
  width,
  height: Math.round(Math.min(190, 90 + width / 4)),
  left: 44,
  right: 8,
  top: 10,
  bottom: 24,
});

function legend(series) {
  return el(
    'ul',
    { class: 'legend' },
    series.map((one, i) =>
      el('li', { class: `series-${i + 1}` }, one.name, one.last === undefined ? null : el('b', {}, one.last)),
    ),
  );
}

function yAxis(frame, values, y, format) {
  return values.map((value) => [
    svg('line', { class: 'grid', x1: frame.left, x2: frame.width - frame.right, y1: y(value), y2: y(value) }),
    svg('text', { 'class': 'tick', 'x': frame.left - 6, 'y': y(value) + 3.5, 'text-anchor': 'end' }, format(value)),
  ]);
}

// series: [{name, points: [[x, y], ...]}]; x in seconds before now (0 or below). `format(y)`, `formatX(x)`: texts of
// ticks.
export function lineChart(
  title,
  series,
  { format = String, formatX = String, span = 60, max = 0, area = false, width = 480 } = {},
) {
  const frame = frameOf(width);
  const top = ticks(Math.max(max, ...series.flatMap((one) => one.points.map(([, y]) => y)), 0));
  const x = (value) => frame.left + (1 + value / span) * (frame.width - frame.left - frame.right);
  const y = (value) =>
    frame.height - frame.bottom - (value / top[top.length - 1]) * (frame.height - frame.top - frame.bottom);
  const lines = series.map((one, i) => {
    const shown = one.points.filter(([at]) => at >= -span);
    if (!shown.length) return null;
    const path = shown.map(([at, value], k) => `${k ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join('');
    return [
      area || series.length === 1
        ? svg('path', {
            class: `area series-${i + 1}`,
            d: `${path}L${x(shown[shown.length - 1][0]).toFixed(1)} ${y(0)}L${x(shown[0][0]).toFixed(1)} ${y(0)}Z`,
          })
        : null,
      svg('path', { class: `line series-${i + 1}`, d: path }),
    ];
  });
  const marks = [-span, -span / 2, 0].map((at) =>
    svg(
      'text',
      {
        'class': 'tick',
        'x': x(at),
        'y': frame.height - 6,
        'text-anchor': at === 0 ? 'end' : at === -span ? 'start' : 'middle',
      },
      formatX(at),
    ),
  );
  const named = series.map((one) => ({
    ...one,
    last: one.points.length ? format(one.points[one.points.length - 1][1]) : undefined,
  }));
  const label = `${title}: ${named.map((one) => `${one.name} ${one.last ?? ''}`).join(', ')}`;
  return el(
    'figure',
    { class: 'chart' },
    el('figcaption', {}, title),
    svg(
      'svg',
      { 'viewBox': `0 0 ${frame.width} ${frame.height}`, 'role': 'img', 'aria-label': label },
      yAxis(frame, top, y, format),
      lines,
      marks,
    ),
    legend(named),
  );
}

// counts[i] fell between bounds[i - 1] and bounds[i]; the last above all bounds. Only the range that has some is shown.
export function histogram(title, bounds, counts, { format = String, note = '', empty = '', width: wide = 480 } = {}) {
  const frame = frameOf(wide);
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (!all) return el('figure', { class: 'chart' }, el('figcaption', {}, title), el('p', { class: 'no-data' }, empty));
  const first = Math.max(0, counts.findIndex((count) => count) - 1);
  const last = Math.min(counts.length - 1, counts.length - [...counts].reverse().findIndex((count) => count));
  const shown = counts.slice(first, last + 1);
  const top = ticks((100 * Math.max(...shown)) / all);
  const width = (frame.width - frame.left - frame.right) / shown.length;
  const y = (value) =>
    frame.height - frame.bottom - (value / top[top.length - 1]) * (frame.height - frame.top - frame.bottom);
  const rangeOf = (i) => (i < bounds.length ? `<= ${format(bounds[i])}` : `> ${format(bounds[bounds.length - 1])}`);
  const bars = shown.map((count, i) =>
    svg(
      'rect',
      {
        class: 'bar series-1',
        x: frame.left + i * width + 1,
        width: Math.max(1, width - 2),
        y: y((100 * count) / all),
        height: Math.max(0, y(0) - y((100 * count) / all)),
      },
      svg('title', {}, `${rangeOf(first + i)}: ${count}`),
    ),
  );
  const every = Math.ceil(shown.length / Math.max(2, Math.floor(wide / 70)));
  const marks = shown.map((_, i) =>
    i % every || first + i >= bounds.length
      ? null
      : svg(
          'text',
          {
            'class': 'tick',
            'x': frame.left + (i + 1) * width,
            'y': frame.height - 6,
            'text-anchor': i + 1 >= shown.length ? 'end' : 'middle',
          },
          format(bounds[first + i]),
        ),
  );
  return el(
    'figure',
    { class: 'chart' },
    el('figcaption', {}, title),
    svg(
      'svg',
      { 'viewBox': `0 0 ${frame.width} ${frame.height}`, 'role': 'img', 'aria-label': `${title}: ${note}` },
      yAxis(frame, top, y, (value) => `${value} %`),
      bars,
      marks,
    ),
    el('p', { class: 'note' }, note),
  );
}

// The quantile q of a histogram, as if values were spread evenly within their bucket.
export function quantile(bounds, counts, q) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  let below = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (counts[i] && below + counts[i] >= q * all) {
      const from = i ? bounds[i - 1] : 0,
        to = i < bounds.length ? bounds[i] : bounds[bounds.length - 1];
      return from + (to - from) * ((q * all - below) / counts[i]);
    }
    below += counts[i];
  }
  return 0;
}

// rows: [{label, value, low, high, note}]; a thin line from low to high where they are known. As a table for readers of
// text.
export function barChart(title, rows, { format = String, max = 0 } = {}) {
  const top = Math.max(max, ...rows.map((row) => row.high ?? row.value), 1e-300);
  const share = (value) => `${(100 * value) / top}%`;
  const row = (one, i) =>
    el(
      'tr',
      {},
      el('th', { scope: 'row' }, one.label),
      el(
        'td',
        { class: 'track' },
        el('div', {
          class: `fill ${one.failed ? 'failed' : `series-${(one.series ?? 0) + 1}`}`,
          style: { width: share(one.value) },
        }),
        one.low === undefined || one.high === undefined
          ? null
          : el('div', { class: 'range', style: { left: share(one.low), width: share(one.high - one.low) } }),
      ),
      el('td', { class: 'value' }, one.failed || format(one.value)),
      el('td', { class: 'note' }, one.note || ''),
    );
  return el('figure', { class: 'bars' }, el('figcaption', {}, title), el('table', {}, el('tbody', {}, rows.map(row))));
}
