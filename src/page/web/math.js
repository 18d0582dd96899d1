// LaTeX to MathML, as a tree of {tag, attributes, children}. What it does not know throws, and is shown as it was
// written.
const node = (tag, children = [], attributes = {}) => ({ tag, attributes, children });
const mi = (text, attributes) => node('mi', [text], attributes);
const mo = (text, attributes) => node('mo', [text], attributes);
const row = (children) => (children.length === 1 ? children[0] : node('mrow', children));

// "name text name text ...". Without a prototype: \constructor is not in it.
function pairs(text) {
  const out = Object.create(null),
    words = text.trim().split(/\s+/);
  for (let i = 0; i < words.length; i += 2) out[words[i]] = words[i + 1];
  return out;
}
const greek = pairs(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ
  nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ
  omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω`);
const letters = pairs(`
  infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ emptyset ∅ varnothing ∅ imath ı jmath ȷ top ⊤ bot ⊥
  angle ∠ degree ° circ ∘ bullet ∙ star ⋆ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ dotsc … dotsb ⋯ prime ′ backslash \\
  triangle △ square □ blacksquare ■ checkmark ✓ dagger † ddagger ‡ complement ∁ wp ℘ surd √`);
const operators = pairs(`
  times × cdot ⋅ div ÷ pm ± mp ∓ ast ∗ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠
  ll ≪ gg ≫ approx ≈ equiv ≡ cong ≅ sim ∼ simeq ≃ propto ∝ doteq ≐ coloneqq ≔ leqslant ⩽ geqslant ⩾ prec ≺ succ ≻
  asymp ≍ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ subsetneq ⊊ cup ∪ cap ∩ setminus ∖ sqcup ⊔
  sqcap ⊓ wedge ∧ land ∧ vee ∨ lor ∨ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ to → rightarrow → leftarrow ← gets ←
  leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺ mapsto ↦ longrightarrow ⟶
  longleftarrow ⟵ longmapsto ⟼ uparrow ↑ downarrow ↓ updownarrow ↕ hookrightarrow ↪ nearrow ↗ searrow ↘
  rightharpoonup ⇀ rightleftharpoons ⇌ perp ⊥ parallel ∥ mid ∣ nmid ∤ vdash ⊢ models ⊨ therefore ∴ because ∵
  lbrace { rbrace } vert | Vert ‖ colon : amalg ⨿ wr ≀ bowtie ⋈ triangleleft ◁ triangleright ▷ trianglelefteq ⊴
  trianglerighteq ⊵ restriction ↾ smile ⌣ frown ⌢`);
const fences = pairs(`
  lbrace { rbrace } { { } } langle ⟨ rangle ⟩ lvert | rvert | lVert ‖ rVert ‖ | ‖ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉
  vert | Vert ‖ lbrack [ rbrack ] backslash \\ uparrow ↑ downarrow ↓`);
// with limits above and below in display style
const large = pairs(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀ bigsqcup ⨆`);
const integrals = pairs(`
  int ∫ iint ∬ iiint ∭ oint ∮`);
const functions = new Set(
  `sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth
  log ln lg exp deg dim ker hom arg gcd Pr det mod`.split(/\s+/),
);
const limitFunctions = new Set('lim limsup liminf max min sup inf argmax argmin'.split(' '));
const spaces = {
  '__proto__': null,
  ',': '0.167em',
  ':': '0.222em',
  '>': '0.222em',
  ';': '0.278em',
  '!': '-0.167em',
  'quad': '1em',
  'qquad': '2em',
  ' ': '0.25em',
  'enspace': '0.5em',
  'thinspace': '0.167em',
};
const accents = pairs(`
  hat ^ widehat ^ bar ¯ vec → dot ˙ ddot ¨ tilde ~ widetilde ~ check ˇ breve ˘ acute ´ grave \` mathring ˚
  overrightarrow → overleftarrow ← overline ¯ overbrace ⏞`);
const under = pairs(`
  underline _ underbrace ⏟`);
const matrices = {
  __proto__: null,
  matrix: ['', ''],
  pmatrix: ['(', ')'],
  bmatrix: ['[', ']'],
  Bmatrix: ['{', '}'],
  vmatrix: ['|', '|'],
  Vmatrix: ['‖', '‖'],
  smallmatrix: ['', ''],
};
const aligned = new Set(['aligned', 'align', 'align*', 'split', 'eqnarray', 'eqnarray*', 'alignedat']);
const gathered = new Set([
  'gathered',
  'gather',
  'gather*',
  'equation',
  'equation*',
  'multline',
  'multline*',
  'displaymath',
]);

// The letter of a style. MathML has no fonts of its own: they are ranges of Unicode, with gaps that are older letters.
const styles = {
  __proto__: null,
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce],
  boldsymbol: [0x1d400, 0x1d41a, 0x1d7ce],
  bm: [0x1d400, 0x1d41a, 0x1d7ce],
  bf: [0x1d400, 0x1d41a, 0x1d7ce],
  mathbb: [0x1d538, 0x1d552, 0x1d7d8],
  mathcal: [0x1d49c, 0x1d4b6],
  mathscr: [0x1d49c, 0x1d4b6],
  mathfrak: [0x1d504, 0x1d51e],
  mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2],
  mathtt: [0x1d670, 0x1d68a, 0x1d7f6],
};
const gaps = {
  mathbb: { C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ' },
  mathcal: { B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ' },
  mathfrak: { C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ' },
};
gaps.mathscr = gaps.mathcal;
function styled(style, text) {
  const [upper, lower, digit] = styles[style];
  return Array.from(text, (c) => {
    if (gaps[style] && gaps[style][c]) return gaps[style][c];
    if (c >= 'A' && c <= 'Z') return String.fromCodePoint(upper + c.charCodeAt(0) - 65);
    if (c >= 'a' && c <= 'z') return String.fromCodePoint(lower + c.charCodeAt(0) - 97);
    if (digit && c >= '0' && c <= '9') return String.fromCodePoint(digit + c.charCodeAt(0) - 48);
    return c;
  }).join('');
}
function restyle(style, tree) {
  if (typeof tree === 'string') return styled(style, tree);
  const attributes = tree.tag === 'mi' ? { mathvariant: 'normal' } : tree.attributes; // the letter itself says it
  return { tag: tree.tag, attributes, children: tree.children.map((child) => restyle(style, child)) };
}

class Parser {
  constructor(source, display) {
    this.source = source;
    this.at = 0;
    this.display = display;
    this.depth = 0;
  }
  fail(why) {
    throw new Error(`${why} at ${this.at}`);
  }
  skipSpace() {
    for (;;) {
      while (/\s/.test(this.source[this.at] || '')) ++this.at;
      if (this.source[this.at] !== '%') return;
      while (this.at < this.source.length && this.source[this.at] !== '\n') ++this.at;
    }
  }
  peek() {
    this.skipSpace();
    return this.source[this.at];
  }
  // "\frac" -> "frac", "\," -> ","
  command() {
    const found = /^\\([a-zA-Z]+\*?|[^])/.exec(this.source.slice(this.at, this.at + 40));
    if (!found) this.fail('a backslash alone');
    let name = found[1];
    if (/^[a-zA-Z]+\*$/.test(name) && name !== 'operatorname*') name = name.slice(0, -1);
    this.at += 1 + name.length;
    return name;
  }
  looksAt(text) {
    this.skipSpace();
    return this.source.startsWith(text, this.at);
  }
  // The text between braces, as it is.
  rawGroup() {
    if (this.peek() !== '{') this.fail('expected {');
    let depth = 0;
    const begin = this.at + 1;
    for (; this.at < this.source.length; ++this.at) {
      const c = this.source[this.at];
      if (c === '\\') ++this.at;
      else if (c === '{') ++depth;
      else if (c === '}' && --depth === 0) return this.source.slice(begin, this.at++);
    }
    return this.fail('expected }');
  }
  // {group}, or a single thing
  argument() {
    const c = this.peek();
    if (c === undefined) this.fail('expected an argument');
    if (c >= '0' && c <= '9') {
      // without braces, a digit alone
      ++this.at;
      return node('mn', [c]);
    }
    return this.atom() || this.fail('expected an argument');
  }
  group() {
    ++this.at;
    const inner = this.list(() => this.source[this.at] === '}');
    if (this.peek() !== '}') this.fail('expected }');
    ++this.at;
    return row(inner);
  }
  list(ends) {
    if (++this.depth > 60) this.fail('nested too deeply');
    const out = [];
    for (;;) {
      this.skipSpace();
      if (this.at >= this.source.length || ends()) break;
      const one = this.scripted(out);
      if (one) out.push(one);
    }
    --this.depth;
    return out;
  }
  // An atom with what stands above and below it.
  scripted() {
    const c = this.source[this.at];
    let base;
    if (c === '^' || c === '_') base = node('mrow');
    else base = this.atom();
    if (!base) return null;
    let sub = null,
      sup = null,
      limits = base.limits;
    for (;;) {
      const next = this.peek();
      if (next === "'") {
        let primes = '';
        while (this.source[this.at] === "'") ((primes += '′'), ++this.at);
        sup = sup ? node('mrow', [mo(primes), sup]) : mo(primes);
      } else if (next === '^') {
        ++this.at;
        const one = this.argument();
        sup = sup ? node('mrow', [sup, one]) : one;
      } else if (next === '_') {
        if (sub) this.fail('two subscripts');
        ++this.at;
        sub = this.argument();
      } else if (this.looksAt('\\limits')) {
        this.at += 7;
        limits = true;
      } else if (this.looksAt('\\nolimits')) {
        this.at += 9;
        limits = false;
      } else {
        break;
      }
    }
    if (!sub && !sup) return base;
    const names =
      limits && (this.display || limits === 'always') ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
    if (sub && sup) return node(names[2], [base, sub, sup]);
    return sub ? node(names[0], [base, sub]) : node(names[1], [base, sup]);
  }
  atom() {
    const c = this.peek();
    if (c === undefined) return null;
    if (c === '{') return this.group();
    if (c === '}') this.fail('a brace too many');
    if (c === '\\') return this.commandAtom();
    if (c === '&') this.fail('& outside a table');
    if (c === '$' || c === '#') this.fail(`unexpected ${c}`);
    const number = /^\d+(?:[.,]\d+)*/.exec(this.source.slice(this.at));
    if (number) {
      this.at += number[0].length;
      return node('mn', [number[0]]);
    }
    const letter = String.fromCodePoint(this.source.codePointAt(this.at));
    this.at += letter.length;
    if (letter === '~') return node('mspace', [], { width: '0.25em' });
    if (/\p{L}/u.test(letter)) return mi(letter);
    if (letter === '-') return mo('−');
    if (letter === '*') return mo('∗');
    if ('()[]|/'.includes(letter)) return mo(letter, { stretchy: 'false' });
    return mo(letter);
  }
  delimiter() {
    this.skipSpace();
    const c = this.source[this.at];
    if (c === '\\') {
      const name = this.command();
      if (!(name in fences)) this.fail(`\\${name} is no fence`);
      return fences[name];
    }
    if (!c || !'()[]|/.<>'.includes(c)) this.fail('expected a fence');
    ++this.at;
    return c === '.' ? '' : c === '<' ? '⟨' : c === '>' ? '⟩' : c;
  }
  commandAtom() {
    const name = this.command();
    if (name in greek) return mi(greek[name], /^[A-Z]/.test(name) ? { mathvariant: 'normal' } : {});
    if (name in letters) return mi(letters[name], { mathvariant: 'normal' });
    if (name in operators) return mo(operators[name]);
    if (name in large)
      return Object.assign(mo(large[name], { largeop: 'true', movablelimits: 'false' }), { limits: true });
    if (name in integrals) return mo(integrals[name], { largeop: 'true' });
    if (functions.has(name)) return mi(name, { mathvariant: 'normal' });
    if (limitFunctions.has(name))
      return Object.assign(
        mo(name.replace(/^(lim|arg)(?=.)/, '$1 '), { movablelimits: 'false', lspace: '0', rspace: '0.167em' }),
        { limits: true },
      );
    if (name in spaces) return node('mspace', [], { width: spaces[name] });
    if (name in fences) return mo(fences[name], { stretchy: 'false' });
    if (name in accents || name in under) return this.accent(name);
    if (name in styles) return restyle(name, this.argument());
    switch (name) {
      case 'frac':
      case 'dfrac':
      case 'tfrac':
      case 'cfrac': {
        const above = this.argument(),
          below = this.argument();
        const fraction = node('mfrac', [above, below]);
        return name === 'frac' ? fraction : node('mstyle', [fraction], { displaystyle: String(name !== 'tfrac') });
      }
      case 'binom':
      case 'dbinom':
      case 'tbinom': {
        const above = this.argument(),
          below = this.argument();
        return node('mrow', [mo('('), node('mfrac', [above, below], { linethickness: '0' }), mo(')')]);
      }
      case 'sqrt':
        return this.root();
      case 'text':
      case 'textrm':
      case 'textit':
      case 'textbf':
      case 'mbox':
      case 'texttt':
      case 'textsf':
        return node('mtext', [
          this.rawGroup()
            .replace(/\\([{}$%&#_ ])/g, '$1')
            .replace(/ /g, '\u00a0'),
        ]);
      case 'mathrm':
      case 'rm':
      case 'mathit':
      case 'mathnormal':
        return this.upright(this.argument());
      case 'operatorname':
      case 'operatorname*': {
        const word = mi(this.rawGroup().replace(/\\[,;! ]/g, ' '), { mathvariant: 'normal' });
        return name.endsWith('*') ? Object.assign(word, { limits: true }) : word;
      }
      case 'left':
        return this.fenced();
      case 'big':
      case 'Big':
      case 'bigg':
      case 'Bigg':
      case 'bigl':
      case 'bigr':
      case 'Bigl':
      case 'Bigr':
      case 'biggl':
      case 'biggr':
      case 'middle': {
        const sizes = { big: '1.2em', Big: '1.8em', bigg: '2.4em', Bigg: '3em' };
        const size = sizes[name.replace(/[lr]$/, '')] || '1.2em';
        return mo(this.delimiter(), { stretchy: 'true', minsize: size, maxsize: size });
      }
      case 'begin':
        return this.environment();
      case 'not': {
        const what = this.atom();
        if (!what || what.tag !== 'mo') this.fail('\\not before an operator');
        return mo(what.children[0] + '\u0338');
      }
      case 'overset':
      case 'stackrel': {
        const above = this.argument();
        return node('mover', [this.argument(), above]);
      }
      case 'underset': {
        const below = this.argument();
        return node('munder', [this.argument(), below]);
      }
      case 'pmod': {
        const what = this.argument();
        return node('mrow', [
          node('mspace', [], { width: '0.5em' }),
          mo('('),
          mi('mod', { mathvariant: 'normal' }),
          node('mspace', [], { width: '0.25em' }),
          what,
          mo(')'),
        ]);
      }
      case 'bmod':
        return mo('mod');
      case 'boxed':
        return node('mrow', [this.argument()], { class: 'boxed' });
      case 'phantom':
        return node('mphantom', [this.argument()]);
      case 'tag':
        return node('mtext', [`\u2003(${this.rawGroup()})`]);
      case 'displaystyle':
      case 'textstyle':
      case 'scriptstyle':
      case 'limits':
      case 'nolimits':
      case 'nonumber':
      case 'notag':
      case 'hline':
        return null;
      case 'label':
        this.rawGroup();
        return null;
      case '%':
      case '$':
      case '&':
      case '#':
      case '_':
        return mo(name);
      case '\n':
        return null;
      default:
        return this.fail(`\\${name} is not known`);
    }
  }
  accent(name) {
    const what = this.argument();
    if (name in under)
      return Object.assign(
        node('munder', [what, mo(under[name], { stretchy: 'true' })]),
        name === 'underbrace' ? { limits: 'always' } : {},
      );
    const stretches = /^(over|wide)/.test(name);
    return Object.assign(
      node('mover', [what, mo(accents[name], { stretchy: String(stretches) })], { accent: 'true' }),
      name === 'overbrace' ? { limits: 'always' } : {},
    );
  }
  root() {
    if (this.peek() === '[') {
      ++this.at;
      const index = row(this.list(() => this.source[this.at] === ']'));
      if (this.source[this.at] !== ']') this.fail('expected ]');
      ++this.at;
      return node('mroot', [this.argument(), index]);
    }
    return node('msqrt', [this.argument()]);
  }
  // Letters next to each other are one upright word.
  upright(tree) {
    if (tree.tag === 'mi') return mi(tree.children[0], { mathvariant: 'normal' });
    if (tree.tag === 'mrow' && tree.children.every((child) => child.tag === 'mi' || child.tag === 'mn'))
      return mi(tree.children.map((child) => child.children[0]).join(''), { mathvariant: 'normal' });
    return {
      ...tree,
      children: tree.children.map((child) => (typeof child === 'string' ? child : this.upright(child))),
    };
  }
  fenced() {
    const open = this.delimiter();
    const inner = this.list(
      () => this.source.startsWith('\\right', this.at) && !/[a-zA-Z]/.test(this.source[this.at + 6] || ''),
    );
    if (!this.looksAt('\\right')) this.fail('expected \\right');
    this.at += 6;
    const close = this.delimiter();
    const fence = (text, form) => mo(text, { fence: 'true', form, stretchy: 'true' });
    return node('mrow', [
      ...(open ? [fence(open, 'prefix')] : []),
      ...inner,
      ...(close ? [fence(close, 'postfix')] : []),
    ]);
  }
  environment() {
    const name = this.rawGroup();
    if (name === 'array' || name === 'alignedat') this.rawGroup();
    const known = name in matrices || aligned.has(name) || gathered.has(name) || name === 'cases' || name === 'array';
    if (!known) this.fail(`${name} is not known`);
    const rows = [[]];
    for (;;) {
      const cell = this.list(
        () =>
          this.source[this.at] === '&' ||
          this.source.startsWith('\\\\', this.at) ||
          this.source.startsWith('\\end', this.at),
      );
      rows[rows.length - 1].push(row(cell));
      if (this.source[this.at] === '&') {
        ++this.at;
      } else if (this.looksAt('\\\\')) {
        this.at += 2;
        const gap = /^\s*\[[^\]]*\]/.exec(this.source.slice(this.at));
        if (gap) this.at += gap[0].length;
        rows.push([]);
      } else {
        break;
      }
    }
    if (!this.looksAt('\\end')) this.fail(`expected \\end{${name}}`);
    this.at += 4;
    if (this.rawGroup() !== name) this.fail(`expected \\end{${name}}`);
    const last = rows[rows.length - 1];
    if (rows.length > 1 && last.length === 1 && last[0].tag === 'mrow' && last[0].children.length === 0) rows.pop();
    const left = name === 'cases' || aligned.has(name);
    const cells = (cols) =>
      cols.map((cell, i) =>
        node('mtd', [cell], left ? { class: aligned.has(name) && i % 2 === 0 ? 'right' : 'left' } : {}),
      );
    const table = node(
      'mtable',
      rows.map((cols) => node('mtr', cells(cols))),
      aligned.has(name) || gathered.has(name) ? { displaystyle: 'true' } : {},
    );
    const [open, close] = name === 'cases' ? ['{', ''] : matrices[name] || ['', ''];
    const fence = (text, form) => (text ? [mo(text, { fence: 'true', form, stretchy: 'true' })] : []);
    return open || close ? node('mrow', [...fence(open, 'prefix'), table, ...fence(close, 'postfix')]) : table;
  }
}

// The tree of a <math> element. Throws an Error with the place for what it does not understand.
export function parseMath(source, display = false) {
  if (source.length > 20000) throw new Error('too long');
  const parser = new Parser(source, display);
  const rows = [[]];
  for (;;) {
    rows[rows.length - 1].push(...parser.list(() => parser.source.startsWith('\\\\', parser.at)));
    if (parser.at >= source.length) break;
    parser.at += 2;
    rows.push([]);
  }
  const inner =
    rows.length === 1
      ? rows[0]
      : [
          node(
            'mtable',
            rows.map((one) => node('mtr', [node('mtd', [row(one)])])),
            { displaystyle: 'true' },
          ),
        ];
  return node('math', [node('mrow', inner)], display ? { display: 'block' } : {});
}
