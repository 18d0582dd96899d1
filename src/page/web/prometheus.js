// Prometheus' text format, as far as the server writes it.

// Map of name -> [{labels: {...}, value}]
export function parseMetrics(text) {
  const all = new Map();
  for (const line of text.split('\n')) {
    if (!line || line[0] === '#') continue;
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    const value = found[3] === '+Inf' ? Infinity : Number(found[3]);
    if (!all.has(found[1])) all.set(found[1], []);
    all.get(found[1]).push({ labels, value });
  }
  return all;
}

const fits = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

// The sum of the samples with these labels. `model`: of one model; samples without that label are of the only one.
export function sum(metrics, name, wanted = {}, model = '') {
  return (metrics.get(name) || [])
    .filter(({ labels }) => fits(labels, wanted) && (!model || !labels.model || labels.model === model))
    .reduce((all, { value }) => all + value, 0);
}

// {bounds, counts} of a histogram; counts are those of each bucket, not of all below it.
export function histogramOf(metrics, name, model = '') {
  const below = new Map();
  for (const { labels, value } of metrics.get(`${name}_bucket`) || []) {
    if (model && labels.model && labels.model !== model) continue;
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    below.set(bound, (below.get(bound) || 0) + value);
  }
  const sorted = [...below.entries()].sort(([a], [b]) => a - b);
  return {
    bounds: sorted.map(([bound]) => bound).filter(Number.isFinite),
    counts: sorted.map(([, count], i) => count - (i ? sorted[i - 1][1] : 0)),
  };
}

// The models whose samples can be told apart.
export function modelsOf(metrics) {
  const names = new Set();
  for (const [name, samples] of metrics)
    if (name.startsWith('heddle_') && name !== 'heddle_info')
      for (const { labels } of samples) if (labels.model) names.add(labels.model);
  return [...names].sort();
}
