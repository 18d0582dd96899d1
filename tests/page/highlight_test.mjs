// Pieces of code: together they are the code, and their kinds are right.
import assert from 'node:assert/strict';
import test from 'node:test';
import { highlight, languageOf } from '../../src/page/web/highlight.js';

const kinds = (code, language) =>
  highlight(code, language)
    .filter((piece) => piece.kind)
    .map((piece) => `${piece.kind}:${piece.text}`)
    .join(' | ');

test('kinds by value', () => {
  for (const [language, code, expected] of [
    ['cpp', 'int x = 0x1F; // hi', 'keyword:int | number:0x1F | comment:// hi'],
    ['cpp', '#include <a>\nf("s\\"t")', 'keyword:#include | name:f | string:"s\\"t"'],
    ['cpp', '/* a\nb */ true', 'comment:/* a\nb */ | literal:true'],
    [
      'py',
      'def f(x):  # c\n  return """a\nb"""',
      'keyword:def | name:f | comment:# c | keyword:return | string:"""a\nb"""',
    ],
    ['js', 'const a = `x${1}`;', 'keyword:const | string:`x${1}`'],
    ['json', '{"a": [1, true, "b"]}', 'name:"a" | number:1 | literal:true | string:"b"'],
    ['yaml', 'key: value # c', 'name:key | comment:# c'],
    ['bash', 'echo "$x" # c', 'keyword:echo | string:"$x" | comment:# c'],
    ['bash', 'a#b', ''],
    ['sql', 'SELECT 1 -- c', 'keyword:SELECT | number:1 | comment:-- c'],
    [
      'html',
      '<a href="x">t</a><!-- c -->',
      'tag:<a | name: href= | string:"x" | tag:> | tag:</a | tag:> | comment:<!-- c -->',
    ],
    ['diff', '+a\n-b\n c\n', 'added:+a\n | removed:-b\n'],
    ['rust', 'let x: &\'a str = "s";', 'keyword:let | keyword:str | string:"s"'],
    ['cpp', 'x = "open', 'string:"open'],
    ['nothing', 'int x;', ''],
    ['', 'int x;', ''],
  ])
    assert.equal(kinds(code, language), expected, `${language}: ${code}`);
});

test('the pieces are the code, whatever it is', () => {
  const codes = [
    '',
    'a',
    '"',
    "'''",
    '/*',
    '<a',
    '<!--',
    '#',
    '`${',
    '\\',
    '\n\n',
    'é"ü"',
    '0x',
    '1e',
    '--[[',
    '{-',
    '+',
    '<a b="',
    'x'.repeat(100001),
  ];
  for (const language of [
    'c',
    'cpp',
    'js',
    'py',
    'java',
    'go',
    'rust',
    'sh',
    'sql',
    'json',
    'yaml',
    'toml',
    'css',
    'html',
    'diff',
    'lua',
    'haskell',
    'cmake',
    'none',
  ])
    for (const one of codes)
      for (const code of [one, `a ${one} b`, one + one])
        assert.equal(
          highlight(code, language)
            .map((piece) => piece.text)
            .join(''),
          code,
        );
});

test('names of languages', () => {
  assert.equal(languageOf('C++'), 'cpp');
  assert.equal(languageOf('python {1,2}'), 'python');
  assert.equal(languageOf('constructor'), '');
  assert.equal(languageOf('__proto__'), '');
  assert.equal(languageOf(undefined), '');
});
