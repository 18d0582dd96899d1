// A page of charts from the JSON of a benchmark: of a model, of simulated traffic, or of kernels.
import { el } from './dom.js';
import { barChart } from './charts.js';

const data = JSON.parse(document.getElementById('data').textContent);
const place = document.getElementById('report');
const digits = (value) =>
  value >= 1000 ? value.toLocaleString('en', { maximumFractionDigits: 0 }) : String(Number(value.toPrecision(3)));
const seconds = (value) =>
  value < 1e-3 ? `${digits(value * 1e6)} us` : value < 1 ? `${digits(value * 1e3)} ms` : `${digits(value)} s`;
const bytes = (value) => (value < 1e9 ? `${digits(value / 1e6)} MB` : `${digits(value / 1e9)} GB`);
const add = (...nodes) => place.append(...nodes);

function tiles(values) {
  const shown = values.filter(([, value]) => value !== undefined && value !== null && value !== '');
  add(
    el(
      'dl',
      { class: 'tiles' },
      shown.map(([name, value]) => el('div', { class: 'tile' }, el('dt', {}, name), el('dd', {}, value))),
    ),
  );
}

function showBackend() {
  if (data.backend) add(el('p', { class: 'note' }, `${data.model}: ${data.backend}`));
}

function showModel() {
  tiles([
    ['Loaded in', data.load_seconds && seconds(data.load_seconds)],
    ['First token after', data.first_token_seconds && seconds(data.first_token_seconds)],
    ['Memory bandwidth', data.memory_bytes_per_second && `${bytes(data.memory_bytes_per_second)}/s`],
    ['Peak memory', data.peak_memory_bytes && bytes(data.peak_memory_bytes)],
    ['On the device', data.device_memory_bytes && bytes(data.device_memory_bytes)],
  ]);
  showBackend();
  const threads = new Set(data.results.map((row) => row.threads)).size > 1;
  const label = (row) =>
    `${row.tokens} tokens` +
    (row.batch > 1 ? ` x ${row.batch}` : '') +
    (row.depth ? ` after ${row.depth}` : '') +
    (threads ? `, ${row.threads} ${row.threads === 1 ? 'thread' : 'threads'}` : '');
  const scale = (row) => (row.texts_per_second ? row.tokens : 1); // runs of embeddings are texts per second
  const bar = (row) => ({
    label: label(row),
    value: row.tokens_per_second,
    low: Math.min(...row.runs) * scale(row),
    high: Math.max(...row.runs) * scale(row),
    note: row.share_of_limit ? `${digits(100 * row.share_of_limit)} % of the bandwidth` : '',
  });
  for (const [kind, title] of [
    ['prompt', 'Prompt, tokens per second'],
    ['decode', 'Decode, tokens per second of all streams'],
  ]) {
    const rows = data.results.filter((row) => row.test === kind);
    if (rows.length) add(barChart(title, rows.map(bar), { format: digits }));
  }
  const others = data.results.filter((row) => !['prompt', 'decode'].includes(row.test));
  if (others.length)
    add(
      barChart(
        'Tokens per second',
        others.map((row) => ({ ...bar(row), label: `${row.test}: ${label(row)}` })),
        { format: digits },
      ),
    );
}

function showTraffic() {
  tiles([
    ['Requests', digits(data.requests)],
    ['Seconds', digits(data.seconds)],
    ['Generated tokens/s', digits(data.generated_tokens_per_second)],
    ['Prompt tokens/s', digits(data.prompt_tokens_per_second)],
    ['Prompt tokens cached', data.prompt_tokens ? `${digits((100 * data.cached_tokens) / data.prompt_tokens)} %` : ''],
    ['Refused', data.refused || ''],
    ['Failed', data.failed || ''],
  ]);
  showBackend();
  const quantiles = (values) =>
    Object.entries(values)
      .filter(([, value]) => typeof value === 'number')
      .map(([label, value]) => ({ label, value }));
  add(
    barChart('Time to first token', quantiles(data.first_token_seconds), { format: seconds }),
    barChart(
      'Time between tokens',
      quantiles(data.between_tokens_seconds).map((row) => ({ ...row, series: 1 })),
      { format: seconds },
    ),
  );
  if (data.kv_blocks)
    add(
      barChart(
        'KV cache, blocks',
        [{ label: 'max in use', value: data.kv_blocks.max_in_use, note: `of ${digits(data.kv_blocks.all)}` }],
        { format: digits, max: data.kv_blocks.all },
      ),
    );
  if (data.sequences_per_step)
    add(
      barChart(
        'Sequences in a step',
        [
          { label: 'mean', value: data.sequences_per_step.mean },
          { label: 'max', value: data.sequences_per_step.max },
        ],
        { format: digits },
      ),
    );
}

function showKernels() {
  tiles([
    ['Streaming limit', `${digits(data.streaming_limit_gb_s)} GB/s`],
    ['Kernels loaded', digits(data.kernels_loaded)],
    ['Cold start', seconds(data.cold_start_s)],
    ['Cached start', seconds(data.cached_start_s)],
  ]);
  add(
    el('p', { class: 'note' }, `${data.device}, compute capability ${data.compute_capability}, driver ${data.driver}`),
  );
  const groups = new Map();
  for (const row of data.kernels) groups.set(row.kernel, [...(groups.get(row.kernel) || []), row]);
  for (const [kernel, rows] of groups)
    add(
      barChart(
        kernel,
        rows.map((row) =>
          row.failure
            ? { label: row.shape, value: 0, failed: 'failed', note: row.failure }
            : {
                label: row.shape,
                value: row.microseconds,
                low: row.fastest,
                high: row.slowest,
                note:
                  `${digits(row.gb_s)} GB/s, ${digits(100 * row.of_limit)} % of the limit, ` +
                  `${digits(row.tflop_s)} TFLOP/s`,
              },
        ),
        { format: (value) => `${digits(value)} us` },
      ),
    );
}

document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
if (data.kernels) showKernels();
else if (data.results) showModel();
else showTraffic();
