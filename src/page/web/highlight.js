// Code as pieces of {kind, text}: comment, string, number, keyword, literal, name, tag, added, removed, or plain ''.
const words = (text) => new Set(text.trim().split(/\s+/));
const cKeywords = `
  auto break case char const continue default do double else enum extern float for goto if inline int long
  register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while`;
const literals = words(`
      true false null None True False nil undefined NaN nullptr this self super`);
const slash = { line: ['//'], block: [['/*', '*/']], strings: ['"', "'"] };
const hash = { line: ['#'], strings: ['"', "'"] };

const languages = {
  __proto__: null,
  c: { ...slash, keywords: words(cKeywords), preprocessor: true },
  cpp: {
    ...slash,
    preprocessor: true,
    keywords: words(`
      ${cKeywords} alignas alignof and asm bool catch class concept consteval constexpr constinit co_await co_return
      co_yield decltype delete explicit export final friend mutable namespace new noexcept not operator or override
      private protected public requires static_assert template thread_local throw try typename using virtual
      __global__ __device__ __shared__ __host__`),
  },
  javascript: {
    line: ['//'],
    block: [['/*', '*/']],
    strings: ['"', "'", '`'],
    keywords: words(`
      abstract any as async await boolean break case catch class const continue debugger declare default delete do
      else enum export extends finally for from function get if implements import in instanceof interface keyof let
      namespace never new number of private protected public readonly return set static string switch throw try type
      typeof unknown var void while with yield`),
  },
  python: {
    line: ['#'],
    strings: ['"""', "'''", '"', "'"],
    keywords: words(`
      and as assert async await break case class continue def del elif else except finally for from global if import
      in is lambda match nonlocal not or pass raise return try while with yield`),
  },
  java: {
    ...slash,
    keywords: words(`
      abstract assert boolean break byte case catch char class const continue default do double else enum extends
      final finally float for if implements import instanceof int interface long native new package private
      protected public record return sealed short static strictfp switch synchronized throw throws transient try var
      void volatile while`),
  },
  csharp: {
    ...slash,
    keywords: words(`
      abstract as async await base bool break byte case catch char checked class const continue decimal default
      delegate do double else enum event explicit extern finally fixed float for foreach get goto if implicit in
      init int interface internal is lock long namespace new object operator out override params private protected
      public readonly record ref return sbyte sealed set short sizeof static string struct switch throw try typeof
      uint ulong unchecked unsafe ushort using var virtual void volatile where while yield`),
  },
  go: {
    line: ['//'],
    block: [['/*', '*/']],
    strings: ['"', "'", '`'],
    keywords: words(`
      break case chan const continue default defer else fallthrough for func go goto if import interface map package
      range return select struct switch type var bool byte error float32 float64 int int32 int64 rune string uint
      uint32 uint64`),
  },
  rust: {
    line: ['//'],
    block: [['/*', '*/']],
    strings: ['"'],
    keywords: words(`
      as async await bool box break char const continue crate dyn else enum extern f32 f64 fn for i16 i32 i64 i8 if
      impl in isize let loop match mod move mut pub ref return static str struct trait type u16 u32 u64 u8 union
      unsafe use usize where while Self`),
  },
  kotlin: {
    ...slash,
    strings: ['"""', '"', "'"],
    keywords: words(`
      abstract as break by catch class companion constructor continue data do else enum final finally for fun get if
      import in init inline interface internal is lateinit object open operator out override package private
      protected public reified return sealed set suspend throw try typealias val var vararg when where while`),
  },
  swift: {
    line: ['//'],
    block: [['/*', '*/']],
    strings: ['"""', '"'],
    keywords: words(`
      actor any as associatedtype async await break case catch class continue default defer deinit do else enum
      extension fileprivate for func guard if import in init inout internal is let mutating nonisolated open
      operator override private protocol public repeat required return some static struct subscript switch throw
      throws try typealias var where while`),
  },
  php: {
    line: ['//', '#'],
    block: [['/*', '*/']],
    strings: ['"', "'"],
    keywords: words(`
      abstract and array as break case catch class clone const continue declare default do echo else elseif empty
      endforeach endif extends final finally fn for foreach function global if implements include instanceof
      interface isset list match namespace new or print private protected public readonly require return static
      switch throw trait try unset use var while yield`),
  },
  ruby: {
    ...hash,
    keywords: words(`
      alias and begin break case class def defined do else elsif end ensure for if in module next not or redo rescue
      retry return then undef unless until when while yield attr_accessor attr_reader require puts`),
  },
  shell: {
    ...hash,
    keywords: words(`
      case do done elif else esac export fi for function if in local readonly return select set shift source then
      trap unset until while alias cd echo exec exit printf read sudo`),
  },
  sql: {
    line: ['--'],
    block: [['/*', '*/']],
    strings: ["'", '"'],
    ignoreCase: true,
    keywords: words(`
      add all alter and as asc begin between by case cast check column commit constraint count create cross default
      delete desc distinct drop else end exists foreign from full group having if in index inner insert int integer
      into is join key left like limit not null offset on or order outer over partition primary references right
      rollback select set sum table text then transaction trigger union unique update values varchar view when where
      with`),
  },
  lua: {
    line: ['--'],
    block: [['--[[', ']]']],
    strings: ['"', "'"],
    keywords: words(`
      and break do else elseif end for function goto if in local not or repeat return then until while`),
  },
  haskell: {
    line: ['--'],
    block: [['{-', '-}']],
    strings: ['"'],
    keywords: words(`
      case class data deriving do else forall if import in infix infixl infixr instance let module newtype of
      qualified then type where`),
  },
  json: { line: ['//'], strings: ['"'], keywords: words(''), keys: true },
  yaml: { ...hash, keywords: words('yes no on off'), keys: true },
  toml: { ...hash, strings: ['"""', '"', "'"], keywords: words(''), keys: true },
  css: {
    block: [['/*', '*/']],
    strings: ['"', "'"],
    keywords: words('important media supports import keyframes from to and not only'),
    keys: true,
  },
  cmake: {
    ...hash,
    strings: ['"'],
    ignoreCase: true,
    keywords: words(`
      add_executable add_library add_subdirectory cmake_minimum_required else elseif endforeach endfunction endif
      foreach function if include message project set target_compile_options target_include_directories
      target_link_libraries`),
  },
  html: { markup: true },
  diff: { diff: true },
};
const aliases = Object.create(null); // name language name language ...
for (const [, name, language] of `
  h c c++ cpp cc cpp cxx cpp hpp cpp cuda cpp cu cpp js javascript jsx javascript ts javascript tsx javascript
  typescript javascript mjs javascript node javascript py python python3 python cs csharp c# csharp golang go
  rs rust kt kotlin rb ruby sh shell bash shell zsh shell fish shell console shell dockerfile shell makefile shell
  jsonc json json5 json yml yaml ini toml scss css less css xml html svg html xhtml html vue html patch diff
  postgresql sql mysql sql sqlite sql hs haskell`.matchAll(/(\S+) (\S+)/g))
  aliases[name] = language;

export function languageOf(name) {
  const key = (name || '')
    .trim()
    .toLowerCase()
    .split(/[\s{:,]/)[0];
  return languages[key] ? key : languages[aliases[key]] ? aliases[key] : '';
}

const endOf = (code, text, from) => {
  const found = code.indexOf(text, from);
  return found < 0 ? code.length : found + text.length;
};

// The end of a string that begins at `at` with `quote`: behind the closing quote, or the end of the line.
function endOfString(code, at, quote) {
  const long = quote.length === 3 || quote === '`';
  for (let i = at + quote.length; i < code.length; ++i) {
    if (code[i] === '\\') ++i;
    else if (code.startsWith(quote, i)) return i + quote.length;
    else if (code[i] === '\n' && !long) return i;
  }
  return code.length;
}

function* markup(code) {
  const pattern = /<!--[^]*?(?:-->|$)|<\/?[A-Za-z][\w:.-]*|\/?>|"[^"]*"|'[^']*'|&\w+;/g;
  let at = 0,
    inTag = false;
  for (let found; (found = pattern.exec(code));) {
    const text = found[0],
      isString = text[0] === '"' || text[0] === "'";
    const kind = text.startsWith('<!--')
      ? 'comment'
      : text[0] === '&'
        ? 'literal'
        : isString
          ? inTag
            ? 'string'
            : ''
          : 'tag';
    if (kind === 'tag' && (text.endsWith('>') ? !inTag : false)) continue;
    if (found.index > at) yield { kind: inTag ? 'name' : '', text: code.slice(at, found.index) };
    if (kind === 'tag') inTag = !text.endsWith('>');
    yield { kind, text };
    at = found.index + text.length;
  }
  if (at < code.length) yield { kind: inTag ? 'name' : '', text: code.slice(at) };
}

function* diff(code) {
  for (const line of code.split(/(?<=\n)/))
    yield {
      kind: line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : line.startsWith('@@') ? 'keyword' : '',
      text: line,
    };
}

function* plain(code, language) {
  let at = 0,
    waiting = '';
  const { line = [], block = [], strings = [], keywords, preprocessor, keys, ignoreCase } = language;
  const word = /[A-Za-z_$@][\w$-]*/y,
    codeWord = /[A-Za-z_$][\w$]*/y,
    number = /(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%]*/y;
  while (at < code.length) {
    const c = code[at];
    let kind = '',
      end = at + 1;
    const comment = line.find((mark) => code.startsWith(mark, at)),
      pair = block.find(([open]) => code.startsWith(open, at));
    const startsLine = at === 0 || /(^|\n)[ \t]*$/.test(code.slice(Math.max(0, at - 40), at));
    if (pair) [kind, end] = ['comment', endOf(code, pair[1], at + pair[0].length)];
    else if (comment && (comment !== '#' || startsLine || /[\s({[;]/.test(code[at - 1])))
      [kind, end] = ['comment', code.indexOf('\n', at) < 0 ? code.length : code.indexOf('\n', at)];
    else if (preprocessor && c === '#' && startsLine)
      [kind, end] = ['keyword', at + /^#[ \t]*\w*/.exec(code.slice(at))[0].length];
    else {
      const quote = strings.find((mark) => code.startsWith(mark, at));
      const names = keys ? word : codeWord;
      names.lastIndex = number.lastIndex = at;
      let found;
      if (quote) {
        [kind, end] = ['string', endOfString(code, at, quote)];
        if (keys && /^\s*[:=]/.test(code.slice(end, end + 20))) kind = 'name';
      } else if (c >= '0' && c <= '9' && (found = number.exec(code))) {
        [kind, end] = ['number', at + found[0].length];
      } else if ((found = names.exec(code))) {
        const text = found[0];
        end = at + text.length;
        if (keywords.has(ignoreCase ? text.toLowerCase() : text)) kind = 'keyword';
        else if (literals.has(text)) kind = 'literal';
        else if (keys ? /^\s*[:=]/.test(code.slice(end, end + 20)) : code[end] === '(') kind = 'name';
      }
    }
    if (kind) {
      if (waiting) yield { kind: '', text: waiting };
      waiting = '';
      yield { kind, text: code.slice(at, end) };
    } else {
      waiting += code.slice(at, end);
    }
    at = end;
  }
  if (waiting) yield { kind: '', text: waiting };
}

// The pieces together are the code. An unknown language, or very long code, is one plain piece.
export function highlight(code, name) {
  const language = languages[languageOf(name)];
  if (!language || code.length > 100000) return code ? [{ kind: '', text: code }] : [];
  if (language.markup) return [...markup(code)];
  if (language.diff) return [...diff(code)];
  return [...plain(code, language)];
}
