// Text of a model as elements. What is not understood is shown as it was written.
import { el, mathml, replace } from './dom.js';
import { highlight, languageOf } from './highlight.js';
import { parseMath } from './math.js';
import { parseBlocks, parseInline } from './markdown.js';
import { t } from './i18n.js';

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text); // without TLS, browsers have no clipboard for pages
  }
}

function copyButton(textOf) {
  const button = el('button', { type: 'button', class: 'copy' }, t('copy'));
  button.addEventListener('click', async () => {
    await copyText(textOf());
    button.textContent = t('copied');
    setTimeout(() => (button.textContent = t('copy')), 1500);
  });
  return button;
}

function copyBySelection(text) {
  const area = el('textarea', { class: 'offscreen', value: text });
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

function formula(text, display) {
  try {
    return mathml(parseMath(text, display));
  } catch {
    return el('code', { class: 'formula' }, display ? `$$${text}$$` : `$${text}$`);
  }
}

function inline(nodes) {
  return nodes.map((node) => {
    switch (node.type) {
      case 'text':
        return node.text;
      case 'code':
        return el('code', {}, node.text);
      case 'math':
        return formula(node.text, node.display);
      case 'break':
        return el('br');
      case 'em':
        return el('em', {}, inline(node.children));
      case 'strong':
        return el('strong', {}, inline(node.children));
      case 'strike':
        return el('s', {}, inline(node.children));
      case 'link':
        return el(
          'a',
          { href: node.url, target: '_blank', rel: 'noopener noreferrer nofollow' },
          inline(node.children),
        );
      case 'image':
        return node.url
          ? el('a', { href: node.url, target: '_blank', rel: 'noopener noreferrer nofollow' }, node.text || node.url)
          : node.text;
      default:
        return el('span', {}, inline(node.children));
    }
  });
}
const words = (text) => inline(parseInline(text));

export function codeBlock(text, language) {
  const pieces = highlight(text, language).map(({ kind, text: piece }) =>
    kind ? el('span', { class: `hl-${kind}` }, piece) : piece,
  );
  const head = el(
    'div',
    { class: 'code-head' },
    el('span', {}, language || ''),
    copyButton(() => text),
  );
  return el(
    'div',
    { class: 'code' },
    head,
    el('pre', { 'tabindex': '0', 'data-language': languageOf(language) }, el('code', {}, pieces)),
  );
}

function listItem(item, loose) {
  const inner = item.blocks.flatMap((block) =>
    block.type === 'paragraph' && !loose ? words(block.text) : [renderBlock(block)],
  );
  if (item.done === undefined) return el('li', {}, inner);
  return el(
    'li',
    { class: 'task' },
    el('input', { 'type': 'checkbox', 'checked': item.done, 'disabled': true, 'aria-label': t('task') }),
    ' ',
    inner,
  );
}

function renderBlock(block) {
  switch (block.type) {
    case 'heading':
      // under the headings of the page
      return el(`h${Math.min(6, block.level + 2)}`, { class: `level-${block.level}` }, words(block.text));
    case 'code':
      return codeBlock(block.text, block.language);
    case 'math':
      return el('div', { class: 'math-block', tabindex: '0' }, formula(block.text, true));
    case 'rule':
      return el('hr');
    case 'quote':
      return el('blockquote', {}, block.blocks.map(renderBlock));
    case 'list':
      return el(
        block.ordered ? 'ol' : 'ul',
        { start: block.ordered && block.start !== 1 ? block.start : null },
        block.items.map((item) => listItem(item, block.loose)),
      );
    case 'table': {
      const cell = (tag, scope) => (text, i) =>
        el(tag, { class: block.align[i] ? `align-${block.align[i]}` : null, scope }, words(text));
      return el(
        'div',
        { class: 'table', tabindex: '0' },
        el(
          'table',
          {},
          el('thead', {}, el('tr', {}, block.head.map(cell('th', 'col')))),
          el(
            'tbody',
            {},
            block.rows.map((row) => el('tr', {}, row.map(cell('td')))),
          ),
        ),
      );
    }
    default:
      return el('p', {}, words(block.text));
  }
}

// Keeps `node` showing a text that grows: blocks that have not changed stay, with what is selected or scrolled in them.
export class MarkdownView {
  constructor(node) {
    this.node = node;
    this.sources = [];
  }
  show(text) {
    const blocks = parseBlocks(text);
    const key = (block) => `${block.type} ${block.closed} ${block.source}`;
    let same = 0;
    while (same < blocks.length && same < this.sources.length && this.sources[same] === key(blocks[same])) ++same;
    while (this.node.childNodes.length > same) this.node.lastChild.remove();
    this.node.append(...blocks.slice(same).map(renderBlock));
    this.sources = blocks.map(key);
  }
}

export function showPlain(node, text) {
  return replace(node, document.createTextNode(text));
}
