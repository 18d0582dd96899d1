// Every text that the page asks for is in the table, in every language, with the same values to fill in.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { chooseLanguage, duration, keys, languages, number, t } from '../../src/page/web/i18n.js';

const folder = new URL('../../src/page/web/', import.meta.url);
const sources = readdirSync(folder)
  .filter((name) => name.endsWith('.js') && name !== 'i18n.js')
  .map((name) => readFileSync(new URL(name, folder), 'utf8'))
  .join('\n');

test('every key is there, and every one is used', () => {
  const known = new Set(keys());
  for (const [, key] of sources.matchAll(/\bt\('(\w+)'/g)) assert.ok(known.has(key), `${key} is not in the table`);
  for (const key of known) assert.ok(new RegExp(`'${key}'`).test(sources), `${key} is not used`);
});

test('languages have the same values to fill in', () => {
  const holes = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  for (const key of keys()) {
    const texts = Object.keys(languages).map((code) => {
      chooseLanguage(code);
      return t(key, new Proxy({}, { get: (_, name) => `{${String(name)}}` }));
    });
    for (const text of texts) assert.deepEqual(holes(text), holes(texts[0]), key);
  }
});

test('numbers and durations as the language writes them', () => {
  chooseLanguage('en');
  assert.equal(t('version', { n: 1, all: 2 }), 'Version 1 of 2');
  assert.equal(number(1234.5, 1), '1,234.5');
  assert.deepEqual([0.0000005, 0.0042, 0.25, 1.5, 120].map(duration), ['1 µs', '4.2 ms', '250 ms', '1.5 s', '2.0 min']);
  assert.equal(chooseLanguage('de'), 'de');
  assert.equal(number(1234.5, 1), '1.234,5');
  assert.equal(chooseLanguage('xx'), 'en');
});
