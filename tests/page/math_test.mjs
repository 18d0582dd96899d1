// LaTeX as MathML, by value; what is not known throws, so that the page shows the source.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseMath } from '../../src/page/web/math.js';

// mfrac(a b); texts of mi, mn and mo as they are
const leaf = new Set(['mi', 'mn', 'mo', 'mtext']);
const text = (tree) => {
  if (typeof tree === 'string') return tree;
  if (leaf.has(tree.tag)) return tree.children.join('');
  return `${tree.tag === 'mrow' ? '' : tree.tag}(${tree.children.map(text).join(' ')})`;
};
const math = (source, display = false) => text(parseMath(source, display).children[0]).slice(1, -1);

test('by value', () => {
  for (const [source, expected] of [
    ['x', 'x'],
    ['a+b=c', 'a + b = c'],
    ['12.5', '12.5'],
    ['x^2', 'msup(x 2)'],
    ['x_i^2', 'msubsup(x i 2)'],
    ['x^2_i', 'msubsup(x i 2)'],
    ['x_{ij}', 'msub(x (i j))'],
    ["f'(x)", 'msup(f ′) ( x )'],
    ['\\frac{a}{b}', 'mfrac(a b)'],
    ['\\frac12', 'mfrac(1 2)'],
    ['\\sqrt{x}', 'msqrt(x)'],
    ['\\sqrt[3]{x+1}', 'mroot((x + 1) 3)'],
    ['\\binom{n}{k}', '(( mfrac(n k) ))'],
    ['\\alpha\\Omega', 'α Ω'],
    ['\\leq \\to \\infty', '≤ → ∞'],
    ['\\mathbb{R}^n', 'msup(ℝ n)'],
    ['\\mathcal{L}', 'ℒ'],
    ['\\mathbf{x1}', '(𝐱 𝟏)'],
    ['\\mathrm{d}x', 'd x'],
    ['\\text{if } x', 'if\u00a0 x'],
    ['\\sin x', 'sin x'],
    ['\\operatorname{rank} A', 'rank A'],
    ['\\hat{x}', 'mover(x ^)'],
    ['\\vec v', 'mover(v →)'],
    ['\\overline{ab}', 'mover((a b) ¯)'],
    ['\\left(\\frac{a}{b}\\right]', '(( mfrac(a b) ])'],
    ['\\left.x\\right|', '(x |)'],
    ['\\{a\\}', '{ a }'],
    ['\\|x\\|', '‖ x ‖'],
    ['\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}', '(( mtable(mtr(mtd(1) mtd(2)) mtr(mtd(3) mtd(4))) ))'],
    ['\\begin{cases}a&x>0\\\\b\\end{cases}', '({ mtable(mtr(mtd(a) mtd((x > 0))) mtr(mtd(b))))'],
    ['\\begin{aligned}a&=b\\\\&=c\\\\\\end{aligned}', 'mtable(mtr(mtd(a) mtd((= b))) mtr(mtd(()) mtd((= c))))'],
    ['a\\\\b', 'mtable(mtr(mtd(a)) mtr(mtd(b)))'],
    ['\\not=', '=\u0338'],
    ['x \\% y % comment', 'x % y'],
    ['{a}_b', 'msub(a b)'],
    ['\\overset{!}{=}', 'mover(= !)'],
    ['\\underbrace{a}_{b}', 'munder(munder(a ⏟) b)'],
    ['', ''],
  ])
    assert.equal(math(source), expected, source);
});

test('limits stand above and below in display style', () => {
  assert.equal(math('\\sum_{i=1}^n i'), 'msubsup(∑ (i = 1) n) i');
  assert.equal(math('\\sum_{i=1}^n i', true), 'munderover(∑ (i = 1) n) i');
  assert.equal(math('\\lim_{x\\to 0}', true), 'munder(lim (x → 0))');
  assert.equal(math('\\int_0^1', true), 'msubsup(∫ 0 1)');
  assert.equal(math('\\int\\limits_0^1', true), 'munderover(∫ 0 1)');
  assert.equal(parseMath('x', true).attributes.display, 'block');
});

test('what is not understood is refused with its place', () => {
  for (const source of [
    '\\unknown',
    '{',
    '}',
    '\\frac{a}',
    'x^',
    '\\left(x',
    '\\begin{pmatrix}1',
    '\\begin{tikz}\\end{tikz}',
    '\\begin{matrix}1\\end{pmatrix}',
    '&',
    '\\sqrt[3',
    'x_a_b',
    '$',
    '\\',
    '\\text{a',
    '\\right)',
    'a'.repeat(20001),
    '{'.repeat(100) + '}'.repeat(100),
  ])
    assert.throws(() => parseMath(source), Error, source);
  assert.throws(() => parseMath('a + \\foo'), /foo is not known at 8/);
});

test('every beginning of a formula ends: a tree or an error', () => {
  const source =
    '\\left[\\sum_{i=1}^{n}\\frac{\\partial^2 f}{\\partial x_i^2}\\right]' +
    '\\begin{bmatrix}a&b\\\\c&d\\end{bmatrix}\\text{for } x\\in\\mathbb{R}';
  for (let end = 0; end <= source.length; ++end)
    try {
      parseMath(source.slice(0, end));
    } catch (error) {
      assert.match(error.message, / at \d+$/);
    }
});
