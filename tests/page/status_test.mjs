// The numbers behind the charts.
import assert from 'node:assert/strict';
import test from 'node:test';
import { quantile, ticks } from '../../src/page/web/charts.js';
import { histogramOf, modelsOf, parseMetrics, sum } from '../../src/page/web/prometheus.js';

const text = `# HELP heddle_info Always 1
# TYPE heddle_info gauge
heddle_info{version="0.1",model="a\\"b\\\\c\\nd"} 1
heddle_tokens_total{source="cached"} 5
heddle_tokens_total{source="computed"} 7
heddle_seconds_bucket{le="0.1"} 2
heddle_seconds_bucket{le="1"} 5
heddle_seconds_bucket{le="+Inf"} 6
heddle_seconds_sum 3.5
heddle_seconds_count 6
heddle_big 1.5e+10
broken line here
`;

test('the text format', () => {
  const metrics = parseMetrics(text);
  assert.deepEqual(metrics.get('heddle_info'), [{ labels: { version: '0.1', model: 'a"b\\c\nd' }, value: 1 }]);
  assert.equal(sum(metrics, 'heddle_tokens_total'), 12);
  assert.equal(sum(metrics, 'heddle_tokens_total', { source: 'cached' }), 5);
  assert.equal(sum(metrics, 'nothing'), 0);
  assert.equal(sum(metrics, 'heddle_big'), 1.5e10);
  assert.deepEqual(histogramOf(metrics, 'heddle_seconds'), { bounds: [0.1, 1], counts: [2, 3, 1] });
  assert.deepEqual(histogramOf(metrics, 'nothing'), { bounds: [], counts: [] });
  assert.deepEqual(modelsOf(metrics), []);
});

test('several models', () => {
  const metrics = parseMetrics(
    'heddle_x{model="a"} 1\nheddle_x{model="b"} 2\nheddle_y 4\n' +
      'heddle_s_bucket{model="a",le="1"} 3\nheddle_s_bucket{model="b",le="1"} 4\n',
  );
  assert.deepEqual(modelsOf(metrics), ['a', 'b']);
  assert.equal(sum(metrics, 'heddle_x'), 3);
  assert.equal(sum(metrics, 'heddle_x', {}, 'b'), 2);
  assert.equal(sum(metrics, 'heddle_y', {}, 'b'), 4);
  assert.deepEqual(histogramOf(metrics, 'heddle_s').counts, [7]);
  assert.deepEqual(histogramOf(metrics, 'heddle_s', 'a').counts, [3]);
});

test('quantiles and ticks', () => {
  assert.equal(quantile([1, 2, 4], [0, 10, 0, 0], 0.5), 1.5);
  assert.equal(quantile([1, 2, 4], [5, 5, 0, 0], 0.5), 1);
  assert.equal(quantile([1, 2, 4], [0, 0, 0, 3], 0.99), 4);
  assert.equal(quantile([1], [0, 0], 0.5), 0);
  for (const [max, expected] of [
    [0, [0, 1]],
    [1, [0, 0.25, 0.5, 0.75, 1]],
    [10, [0, 2.5, 5, 7.5, 10]],
    [7, [0, 2, 4, 6, 8]],
    [0.003, [0, 0.001, 0.002, 0.003]],
    [1234, [0, 500, 1000, 1500]],
  ])
    assert.deepEqual(ticks(max), expected, String(max));
});
