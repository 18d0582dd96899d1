// Markdown as models write it, to a tree of plain objects: CommonMark's usual part, tables, task lists and formulas.
// HTML is text like any other. Every block has `source`, its own lines, by which a page sees what has changed.
const blank = /^\s*$/;
const fence = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const heading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const rule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const bullet = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|[ \t]*)$/;
const quote = /^ {0,3}> ?/;
const tableRule = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const maxDepth = 20;
const maxInline = 20000; // characters of a paragraph; a longer one is shown as plain text
const reach = 500; // characters, or lines of a formula, that are looked at for an end: every mark may be without one

export function parseBlocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const blocks = [];
  let paragraph = [];
  let at = 0;
  const endParagraph = () => {
    if (paragraph.length)
      blocks.push({
        type: 'paragraph',
        text: paragraph
          .map((line) => line.trimStart())
          .join('\n')
          .trimEnd(),
        source: paragraph.join('\n'),
      });
    paragraph = [];
  };
  const push = (block, from) => {
    endParagraph();
    blocks.push({ ...block, source: lines.slice(from, at).join('\n') });
  };
  while (at < lines.length) {
    const line = lines[at],
      from = at;
    let found;
    if (blank.test(line)) {
      endParagraph();
      ++at;
    } else if ((found = fence.exec(line))) {
      endParagraph();
      push(readFence(), from);
    } else if ((found = mathBegin(line))) {
      const math = readMath(found);
      if (math !== null) push({ type: 'math', text: math }, from);
      else paragraph.push(lines[at++]);
    } else if ((found = heading.exec(line))) {
      ++at;
      push({ type: 'heading', level: found[1].length, text: found[2] || '' }, from);
    } else if (paragraph.length && /^ {0,3}(=+|-+)[ \t]*$/.test(line)) {
      ++at;
      const words = paragraph.map((one) => one.trim()).join('\n'),
        count = paragraph.length;
      paragraph = [];
      push({ type: 'heading', level: line.trim()[0] === '=' ? 1 : 2, text: words }, from - count);
    } else if (rule.test(line)) {
      ++at;
      push({ type: 'rule' }, from);
    } else if (quote.test(line) && depth < maxDepth) {
      endParagraph();
      const inner = [];
      for (; at < lines.length && (quote.test(lines[at]) || (!blank.test(lines[at]) && !startsBlock(lines[at]))); ++at)
        inner.push(lines[at].replace(quote, ''));
      push({ type: 'quote', blocks: parseBlocks(inner.join('\n'), depth + 1) }, from);
    } else if ((found = bullet.exec(line)) && depth < maxDepth && canBeginList(found)) {
      endParagraph();
      push(readList(found), from);
    } else if (
      line.includes('|') &&
      tableRule.test(lines[at + 1] || '') &&
      (lines[at + 1].includes('|') || line.includes('|')) &&
      cellsOf(line).length === cellsOf(lines[at + 1]).length
    ) {
      endParagraph();
      push(readTable(), from);
    } else {
      paragraph.push(line);
      ++at;
    }
  }
  endParagraph();
  return blocks;

  function startsBlock(line) {
    return fence.test(line) || heading.test(line) || rule.test(line) || bullet.test(line);
  }
  function canBeginList(found) {
    // within a paragraph, only a number 1 and an item with text begin a list
    return !paragraph.length || (found[4] && !/^\d/.test(found[2])) || /^1[.)]$/.test(found[2]);
  }
  function readFence() {
    const [, indent, marks, info] = fence.exec(lines[at++]);
    const close = new RegExp(`^ {0,3}${marks[0] === '`' ? '`' : '~'}{${marks.length},}[ \\t]*$`);
    const code = [];
    let closed = false;
    for (; at < lines.length; ++at) {
      if (close.test(lines[at])) {
        ++at;
        closed = true;
        break;
      }
      code.push(lines[at].replace(new RegExp(`^ {0,${indent.length}}`), ''));
    }
    return { type: 'code', language: info.trim().split(/\s+/)[0], text: code.join('\n'), closed };
  }
  function mathBegin(line) {
    const found = /^ {0,3}(\$\$|\\\[)/.exec(line);
    return found && { open: found[1], close: found[1] === '$$' ? '$$' : '\\]', begin: found[0].length };
  }
  // A formula of its own; null: it does not end, or text follows it.
  function readMath({ close, begin }) {
    let text = '';
    for (let i = at; i < Math.min(lines.length, at + reach) && (i === at || !blank.test(lines[i])); ++i) {
      const line = i === at ? lines[i].slice(begin) : lines[i];
      const end = line.indexOf(close);
      if (end < 0) {
        text += line + '\n';
        continue;
      }
      if (!/^[ \t.,;]*$/.test(line.slice(end + 2))) return null;
      at = i + 1;
      return (text + line.slice(0, end)).trim();
    }
    return null;
  }
  function readList(first) {
    const ordered = /\d/.test(first[2]),
      kind = first[2].slice(-1);
    const items = [];
    let loose = false;
    while (at < lines.length) {
      const found = bullet.exec(lines[at]);
      if (!found || rule.test(lines[at]) || /\d/.test(found[2]) !== ordered || found[2].slice(-1) !== kind) break;
      const spaces = found[3] && found[3].length <= 4 && found[4] ? found[3].length : 1;
      const width = found[1].length + found[2].length + spaces;
      const inner = [found[4] === undefined ? '' : (found[3].length > 4 ? found[3].slice(1) : '') + found[4]];
      let gap = false;
      for (++at; at < lines.length; ++at) {
        const line = lines[at];
        const indent = /^ */.exec(line)[0].length;
        if (blank.test(line)) {
          inner.push('');
          gap = true;
        } else if (indent >= width || (indent >= 2 && bullet.test(line.trimStart()) && indent > found[1].length + 1)) {
          if (gap) loose = true;
          inner.push(line.slice(Math.min(indent, width)));
          gap = false;
        } else if (!gap && !startsBlock(line) && !quote.test(line)) {
          inner.push(line); // a paragraph that goes on
        } else {
          break;
        }
      }
      while (inner.length && blank.test(inner[inner.length - 1])) inner.pop();
      const next = bullet.exec(lines[at] || '');
      if (gap && next && next[2].slice(-1) === kind) loose = true;
      const task = /^\[([ xX])\][ \t]+/.exec(inner[0] || '');
      if (task) inner[0] = inner[0].slice(task[0].length);
      items.push({ blocks: parseBlocks(inner.join('\n'), depth + 1), ...(task ? { done: task[1] !== ' ' } : {}) });
    }
    return { type: 'list', ordered, start: ordered ? parseInt(first[2], 10) : undefined, loose, items };
  }
  function readTable() {
    const head = cellsOf(lines[at]);
    const align = cellsOf(lines[at + 1]).map((cell) =>
      /^:-+:$/.test(cell) ? 'center' : /-:$/.test(cell) ? 'right' : /^:-/.test(cell) ? 'left' : '',
    );
    const rows = [];
    for (
      at += 2;
      at < lines.length && !blank.test(lines[at]) && !fence.test(lines[at]) && lines[at].includes('|');
      ++at
    ) {
      const cells = cellsOf(lines[at]);
      rows.push(head.map((_, i) => cells[i] || ''));
    }
    return { type: 'table', align, head, rows };
  }
}

// "| a | b\|c |" -> ["a", "b|c"]; bars within code do not count
function cellsOf(line) {
  const cells = [''];
  let ticks = 0;
  const text = line
    .trim()
    .replace(/^\|/, '')
    .replace(/(^|[^\\])\|$/, '$1');
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === '\\' && text[i + 1] === '|') cells[cells.length - 1] += text[++i];
    else if (text[i] === '`') ((ticks ^= 1), (cells[cells.length - 1] += '`'));
    else if (text[i] === '|' && !ticks) cells.push('');
    else cells[cells.length - 1] += text[i];
  }
  return cells.map((cell) => cell.trim());
}

// --- inline ---------------------------------------------------------------------------------------------------------
const entities = {
  __proto__: null,
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  copy: '©',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  times: '×',
  rarr: '→',
  larr: '←',
};
const punctuation = /[\p{P}\p{S}]/u;

// Only what a browser may open from here: no scripts, no data, no paths of this server.
export function safeLink(url) {
  const text = url.replace(/[\u0000-\u0020\u007f]/g, '');
  return /^(https?:\/\/|mailto:)[^\s]/i.test(text) ? text : null;
}

export function parseInline(text, depth = 0) {
  if (text.length > maxInline) return [{ type: 'text', text }];
  const out = []; // nodes, and delimiters that may become emphasis
  let at = 0,
    plain = '';
  const flush = () => {
    if (plain) out.push({ type: 'text', text: plain });
    plain = '';
  };
  const push = (node) => {
    flush();
    out.push(node);
  };
  while (at < text.length) {
    const c = text[at];
    let found;
    if (c === '\\' && (found = /^\\\(([^]*?)\\\)/.exec(text.slice(at, at + reach))) && found[1].trim()) {
      push({ type: 'math', text: found[1].trim() });
      at += found[0].length;
    } else if (c === '\\' && (found = /^\\\[([^]*?)\\\]/.exec(text.slice(at, at + reach))) && found[1].trim()) {
      push({ type: 'math', text: found[1].trim(), display: true });
      at += found[0].length;
    } else if (c === '\\' && text[at + 1] === '\n') {
      push({ type: 'break' });
      at += 2;
    } else if (c === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] || '')) {
      plain += text[at + 1];
      at += 2;
    } else if (c === '`') {
      const ticks = /^`+/.exec(text.slice(at))[0];
      const end = findTicks(text, at + ticks.length, ticks.length);
      if (end < 0) {
        plain += ticks;
        at += ticks.length;
      } else {
        let code = text.slice(at + ticks.length, end).replace(/\n/g, ' ');
        if (/^ .* $/.test(code) && code.trim()) code = code.slice(1, -1);
        push({ type: 'code', text: code });
        at = end + ticks.length;
      }
    } else if (c === '$' && (found = inlineMath(text, at))) {
      push({ type: 'math', text: found.text, display: found.display });
      at = found.end;
    } else if (c === '!' && text[at + 1] === '[' && (found = readLink(text, at + 1))) {
      push({ type: 'image', text: found.label, url: safeLink(found.url) }); // it is not fetched, only linked
      at = found.end;
    } else if (c === '[' && depth < maxDepth && (found = readLink(text, at))) {
      const url = safeLink(found.url);
      const children = parseInline(found.label, depth + 1);
      if (url) push({ type: 'link', url, children });
      else push({ type: 'group', children });
      at = found.end;
    } else if (c === '<' && (found = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(text.slice(at)))) {
      push({ type: 'link', url: safeLink(found[1]), children: [{ type: 'text', text: found[1] }] });
      at += found[0].length;
    } else if (
      (c === 'h' || c === 'H') &&
      !/\w/.test(text[at - 1] || '') &&
      (found = /^https?:\/\/[^\s<>`"*]+/i.exec(text.slice(at)))
    ) {
      const url = trimUrl(found[0]);
      push({ type: 'link', url: safeLink(url) || '', children: [{ type: 'text', text: url }] });
      at += url.length;
    } else if (c === '&' && (found = /^&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,8}));/i.exec(text.slice(at)))) {
      const code = found[1] ? parseInt(found[1], 10) : found[2] ? parseInt(found[2], 16) : 0;
      plain += found[3]
        ? entities[found[3]] || found[0]
        : code > 31 && code < 0x110000
          ? String.fromCodePoint(code)
          : '\ufffd';
      at += found[0].length;
    } else if (c === '*' || c === '_' || (c === '~' && text[at + 1] === '~')) {
      const run = new RegExp(`^\\${c}+`).exec(text.slice(at))[0];
      push(delimiter(text, at, run));
      at += run.length;
    } else if (c === '\n') {
      const hard = / {2,}$/.test(plain);
      plain = plain.trimEnd();
      push(hard ? { type: 'break' } : { type: 'text', text: '\n' });
      ++at;
      while (text[at] === ' ') ++at;
    } else {
      plain += c;
      ++at;
    }
  }
  flush();
  return joinTexts(emphasize(out));
}

function findTicks(text, from, count) {
  for (let i = from; i < text.length; ++i) {
    if (text[i] !== '`') continue;
    let n = 0;
    while (text[i + n] === '`') ++n;
    if (n === count) return i;
    i += n - 1;
  }
  return -1;
}

// $x$, but not the prices of "$5 and $6": no space inside the marks, no digit after them.
function inlineMath(text, at) {
  if (text.startsWith('$$', at)) {
    const end = text.indexOf('$$', at + 2);
    const inner = end < 0 ? '' : text.slice(at + 2, end).trim();
    return inner ? { text: inner, display: true, end: end + 2 } : null;
  }
  if (/\s/.test(text[at + 1] || ' ') || /\w/.test(text[at - 1] || '')) return null;
  for (let i = at + 1; i < Math.min(text.length, at + reach) && !text.startsWith('\n\n', i); ++i) {
    if (text[i] === '\\') ++i;
    else if (text[i] === '$') {
      if (/\s/.test(text[i - 1]) || /\d/.test(text[i + 1] || '') || i === at + 1) return null;
      return { text: text.slice(at + 1, i), end: i + 1 };
    }
  }
  return null;
}

// [label](url "title") from the bracket on.
function readLink(text, at) {
  let depth = 0,
    i = at;
  for (; i < Math.min(text.length, at + reach); ++i) {
    if (text[i] === '\\') ++i;
    else if (text[i] === '`') {
      const n = /^`+/.exec(text.slice(i))[0].length,
        end = findTicks(text, i + n, n);
      i = end < 0 ? i + n - 1 : end + n - 1;
    } else if (text[i] === '[') ++depth;
    else if (text[i] === ']' && --depth === 0) break;
  }
  if (text[i] !== ']' || text[i + 1] !== '(') return null;
  const label = text.slice(at + 1, i);
  const target =
    /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(
      text.slice(i + 1),
    );
  return target && { label, url: target[1] === undefined ? target[2] : target[1], end: i + 1 + target[0].length };
}

function trimUrl(url) {
  for (;;) {
    const last = url[url.length - 1];
    const unbalanced = last === ')' && url.split(')').length > url.split('(').length;
    if (!'.,;:!?\'"'.includes(last) && !unbalanced) return url;
    url = url.slice(0, -1);
  }
}

// CommonMark's rule of what may open and close emphasis.
function delimiter(text, at, run) {
  const before = at === 0 ? ' ' : text[at - 1],
    after = text[at + run.length] || ' ';
  const space = /\s/,
    left = !space.test(after) && (!punctuation.test(after) || space.test(before) || punctuation.test(before));
  const right = !space.test(before) && (!punctuation.test(before) || space.test(after) || punctuation.test(after));
  const c = run[0];
  return {
    type: 'delimiter',
    mark: c,
    count: run.length,
    opens: c === '_' ? left && (!right || punctuation.test(before)) : left,
    closes: c === '_' ? right && (!left || punctuation.test(after)) : right,
  };
}

function emphasize(list) {
  for (let close = 0; close < list.length; ++close) {
    const end = list[close];
    if (end.type !== 'delimiter' || !end.closes || !end.count) continue;
    let open = close - 1;
    for (; open >= Math.max(0, close - reach); --open) {
      const start = list[open];
      if (start.type !== 'delimiter' || start.mark !== end.mark || !start.opens || !start.count) continue;
      if (
        start.mark === '~'
          ? start.count < 2 || end.count < 2
          : (start.closes || end.opens) && (start.count + end.count) % 3 === 0 && (start.count % 3 || end.count % 3)
      )
        continue;
      break;
    }
    if (open < Math.max(0, close - reach)) continue;
    const start = list[open],
      count = start.count >= 2 && end.count >= 2 ? 2 : 1;
    const type = start.mark === '~' ? 'strike' : count === 2 ? 'strong' : 'em';
    start.count -= count;
    end.count -= count;
    list.splice(open + 1, close - open - 1, { type, children: joinTexts(list.slice(open + 1, close)) });
    close = open + 1; // the closing one stands behind the new node; what is left of it is looked at again
  }
  return list;
}

// Delimiters that are left over are text.
function joinTexts(list) {
  const out = [];
  for (const one of list) {
    const node = one.type === 'delimiter' ? { type: 'text', text: one.mark.repeat(one.count) } : one;
    if (node.type === 'text' && !node.text) continue;
    const last = out[out.length - 1];
    if (node.type === 'text' && last && last.type === 'text') last.text += node.text;
    else out.push(node.type === 'text' ? { ...node } : node);
  }
  return out;
}
