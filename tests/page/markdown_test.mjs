// What models write, as trees: by value, and that nothing of it can become more than text.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseBlocks, parseInline, safeLink } from '../../src/page/web/markdown.js';

// A tree as one line: em(a), link[url](b), "text"
const inlineText = (nodes) =>
  nodes
    .map((node) => {
      if (node.type === 'text') return node.text;
      if (node.type === 'break') return '<br>';
      const inner = node.children ? inlineText(node.children) : node.text;
      return `${node.type}${node.url === undefined ? '' : `[${node.url}]`}${node.display ? '!' : ''}(${inner})`;
    })
    .join('');
const inline = (text) => inlineText(parseInline(text));
const mark = { true: 'x ', false: '_ ', undefined: '' };
const itemText = (item) => mark[item.done] + item.blocks.map(block).join(' ');
const block = (one) => {
  switch (one.type) {
    case 'paragraph':
      return `p(${inline(one.text)})`;
    case 'heading':
      return `h${one.level}(${inline(one.text)})`;
    case 'code':
      return `code[${one.language}${one.closed ? '' : ' open'}](${one.text})`;
    case 'math':
      return `math(${one.text})`;
    case 'rule':
      return 'hr';
    case 'quote':
      return `quote(${one.blocks.map(block).join(' ')})`;
    case 'list':
      return `${one.ordered ? `ol${one.start}` : 'ul'}${one.loose ? '+' : ''}(${one.items.map(itemText).join('; ')})`;
    case 'table':
      return `table[${one.align}](${one.head.join('|')}; ${one.rows.map((row) => row.join('|')).join('; ')})`;
    default:
      throw new Error(one.type);
  }
};
const blocks = (text) => parseBlocks(text).map(block).join(' ');

test('emphasis as CommonMark has it', () => {
  for (const [text, expected] of [
    ['*a* _b_ **c** __d__', 'em(a) em(b) strong(c) strong(d)'],
    ['***a***', 'em(strong(a))'],
    ['**a *b* c**', 'strong(a em(b) c)'],
    ['*a **b** c*', 'em(a strong(b) c)'],
    ['a_b_c snake_case_name', 'a_b_c snake_case_name'],
    ['a*b*c', 'aem(b)c'],
    ['2 * 3 * 4', '2 * 3 * 4'],
    ['**a', '**a'],
    ['a**', 'a**'],
    ['** a **', '** a **'],
    ['~~a~~ ~b~', 'strike(a) ~b~'],
    ['*a', '*a'],
    ['**a*', '*em(a)'],
    ['\\*a\\*', '*a*'],
    ['*foo`*`*', 'em(foocode(*))'],
    ['**bold**text', 'strong(bold)text'],
    ['', ''],
  ])
    assert.equal(inline(text), expected, text);
});

test('code, links, breaks and entities', () => {
  for (const [text, expected] of [
    ['`a*b*`', 'code(a*b*)'],
    ['``a`b``', 'code(a`b)'],
    ['` a `', 'code(a)'],
    ['`a', '`a'],
    ['[a *b*](https://e.org)', 'link[https://e.org](a em(b))'],
    ['[a](https://e.org/x_(y) "title")', 'link[https://e.org/x_(y)](a)'],
    ['[a](<https://e.org/a b>)', 'link[https://e.org/ab](a)'],
    ['<https://e.org>', 'link[https://e.org](https://e.org)'],
    ['see https://e.org/a_b_c.', 'see link[https://e.org/a_b_c](https://e.org/a_b_c).'],
    ['(https://e.org/(x))', '(link[https://e.org/(x)](https://e.org/(x)))'],
    ['![alt](https://e.org/a.png)', 'image[https://e.org/a.png](alt)'],
    ['a  \nb', 'a<br>b'],
    ['a\nb', 'a\nb'],
    ['a\\\nb', 'a<br>b'],
    ['&lt;b&gt; &#65; &#x42; &unknown;', '<b> A B &unknown;'],
    ['[a]', '[a]'],
    ['[a](b', '[a](b'],
    ['[a] (b)', '[a] (b)'],
  ])
    assert.equal(inline(text), expected, text);
});

test('only addresses of the web become links', () => {
  for (const url of [
    'javascript:alert(1)',
    ' javascript:alert(1)',
    'java\nscript:alert(1)',
    'JaVaScRiPt:x',
    'data:text/html,<b>',
    'vbscript:x',
    'file:///etc/passwd',
    '/v1/models',
    '//e.org',
    'blob:x',
    'https:',
    '\u0001javascript:x',
    'http:javascript:x',
  ])
    assert.equal(safeLink(url), null, url);
  assert.equal(safeLink('https://e.org'), 'https://e.org');
  assert.equal(safeLink('mailto:a@e.org'), 'mailto:a@e.org');
  assert.equal(inline('[a](javascript:alert(1))'), 'group(a)');
  assert.equal(inline('![a](javascript:alert(1))'), 'image[null](a)');
  assert.equal(inline('<script>alert(1)</script>'), '<script>alert(1)</script>');
});

test('formulas, but not prices', () => {
  for (const [text, expected] of [
    ['$x^2$', 'math(x^2)'],
    ['a \\(b\\) c', 'a math(b) c'],
    ['\\[b\\]', 'math!(b)'],
    ['$$b$$', 'math!(b)'],
    ['$5 and $6', '$5 and $6'],
    ['costs $5', 'costs $5'],
    ['$ x $', '$ x $'],
    ['US$5 to US$6', 'US$5 to US$6'],
    ['$a_1 * b_1$ and $c$', 'math(a_1 * b_1) and math(c)'],
    ['\\$x$', '$x$'],
    ['`$x$`', 'code($x$)'],
  ])
    assert.equal(inline(text), expected, text);
  assert.equal(blocks('$$\na\nb\n$$'), 'math(a\nb)');
  assert.equal(blocks('\\[ a \\]'), 'math(a)');
  assert.equal(blocks('$$a$$ and'), 'p(math!(a) and)');
  assert.equal(blocks('$$\nopen'), 'p($$\nopen)');
});

test('blocks', () => {
  for (const [text, expected] of [
    ['a\nb\n\nc', 'p(a\nb) p(c)'],
    ['# a\n### b #', 'h1(a) h3(b)'],
    ['a\n===\nb\n---', 'h1(a) h2(b)'],
    ['#a', 'p(#a)'],
    ['---', 'hr'],
    ['***', 'hr'],
    ['a\n\n---\nb', 'p(a) hr p(b)'],
    ['```js\na\n\nb\n```\nc', 'code[js](a\n\nb) p(c)'],
    ['```\n# a', 'code[ open](# a)'],
    ['~~~\n```\n~~~', 'code[](```)'],
    ['````\n```\n````', 'code[](```)'],
    ['  ```\n  a\n  ```', 'code[](a)'],
    ['> a\n> b\n\nc', 'quote(p(a\nb)) p(c)'],
    ['> > a', 'quote(quote(p(a)))'],
    ['> a\nb', 'quote(p(a\nb))'],
    ['- a\n- b', 'ul(p(a); p(b))'],
    ['* a\n\n* b', 'ul+(p(a); p(b))'],
    ['3. a\n4. b', 'ol3(p(a); p(b))'],
    ['- a\n  - b\n    - c\n- d', 'ul(p(a) ul(p(b) ul(p(c))); p(d))'],
    ['1. a\n   ```c\n   x\n   ```\n2. b', 'ol1(p(a) code[c](x); p(b))'],
    ['- [ ] a\n- [x] b', 'ul(_ p(a); x p(b))'],
    ['- a\nb', 'ul(p(a\nb))'],
    ['- a\n\nb', 'ul(p(a)) p(b)'],
    ['- a\n1. b', 'ul(p(a)) ol1(p(b))'],
    ['text\n- a', 'p(text) ul(p(a))'],
    ['in 1986. b', 'p(in 1986. b)'],
    ['text\n1986. b', 'p(text\n1986. b)'],
    ['1. a\n- b', 'ol1(p(a)) ul(p(b))'],
    ['-', 'ul()'],
    ['| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |', 'table[,center](a|b; 1|2; 3|)'],
    ['a|b\n-|-:\n`x|y`|z\\|w', 'table[,right](a|b; `x|y`|z|w)'],
    ['a | b\nc', 'p(a | b\nc)'],
    ['a\n-|-', 'p(a\n-|-)'],
    ['', ''],
    ['\n\n', ''],
    ['<div>\n**a**\n</div>', 'p(<div>\nstrong(a)\n</div>)'],
  ])
    assert.equal(blocks(text), expected, text);
});

test('every beginning of a text can be shown, and its last form is that of the whole', () => {
  const text =
    '# T\n\nA **b** `c` $x$ [l](https://e.org)\n\n- a\n  1. b\n\n```js\nlet a = 1;\n```\n\n' +
    '| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\\frac{a}{b}$$\n\n> q\n';
  for (let end = 0; end <= text.length; ++end) parseBlocks(text.slice(0, end)).map(block);
  const finished = parseBlocks(text)
    .slice(0, 2)
    .map((one) => one.source);
  assert.deepEqual(finished, ['# T', 'A **b** `c` $x$ [l](https://e.org)']);
});

test('hostile texts take no long time', () => {
  const begin = Date.now();
  for (const piece of [
    '*a ',
    'a* ',
    '[',
    '](',
    '`',
    '$',
    '\\(',
    '\\[',
    '> ',
    '- ',
    '| ',
    '_',
    '~~',
    '&',
    '<http://',
    '![',
    '**',
    '($$',
  ]) {
    parseBlocks(piece.repeat(20000)).map(block);
    parseBlocks(`${piece}\n`.repeat(2000)).map(block);
    parseBlocks(piece.repeat(900)).map(block);
  }
  assert.ok(Date.now() - begin < 20000, `took ${Date.now() - begin} ms`);
});
