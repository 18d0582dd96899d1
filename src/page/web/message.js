// One message of a conversation as elements, and what can be done with it.
import { el, replace } from './dom.js';
import { duration, number, t } from './i18n.js';
import { icon, iconButton } from './page.js';
import { MarkdownView, codeBlock, copyText, showPlain } from './render.js';
import { siblingsOf } from './tree.js';
import { liveRate } from './answer.js';

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not complete yet
  }
}

export class MessageView {
  // `actions`: {edit, regenerate, continue, switch, results}, called with the node.
  constructor(conversation, node, actions) {
    Object.assign(this, { conversation, node, actions });
    const name = { user: t('you'), assistant: t('assistant'), tool: t('toolResult') }[node.role];
    this.body = el('div', { class: 'body' });
    this.markdown = node.role === 'assistant' ? new MarkdownView(this.body) : null;
    this.thought = null;
    this.calls = el('div', { class: 'calls' });
    this.state = el('div', { class: 'state' });
    this.figures = el('span', { class: 'figures' });
    this.tools = el('div', { 'class': 'tools', 'role': 'toolbar', 'aria-label': name });
    this.article = el(
      'article',
      { 'class': `message ${node.role}`, 'aria-label': name, 'tabindex': '-1', 'id': `message-${node.id}` },
      el('h2', { class: 'offscreen' }, name),
      this.files(),
      this.body,
      this.calls,
      this.state,
      el('footer', {}, this.tools, this.figures),
    );
    this.update();
    this.updateTools(false);
  }
  files() {
    const files = this.node.files || [];
    return files.length
      ? el(
          'ul',
          { class: 'files' },
          files.map((file) => el('li', {}, icon('file'), file.name)),
        )
      : null;
  }
  update() {
    const { node } = this;
    if (this.editing) return;
    if (this.markdown) this.markdown.show(node.content);
    else showPlain(this.body, node.content);
    this.updateThought();
    this.updateCalls();
    this.updateState();
    const rate = node.status === 'running' ? liveRate(node) : node.rate;
    const figures = [
      node.usage && node.status !== 'running' ? t('tokens', { n: number(node.usage.output) }) : '',
      rate ? t('tokensPerSecond', { rate: number(rate, rate < 100 ? 1 : 0) }) : '',
      node.firstToken && node.status !== 'running' ? t('firstToken', { time: duration(node.firstToken) }) : '',
    ];
    this.figures.textContent = figures.filter(Boolean).join(' · ');
  }
  updateThought() {
    const { node } = this;
    if (!node.reasoning) {
      if (this.thought) this.thought.remove();
      this.thought = null;
      return;
    }
    if (!this.thought) {
      this.thoughtTitle = el('summary', {});
      this.thoughtBody = el('div', { class: 'thought-text' });
      this.thoughtView = new MarkdownView(this.thoughtBody);
      this.thought = el('details', { class: 'thought' }, this.thoughtTitle, this.thoughtBody);
      this.thought.addEventListener(
        'toggle',
        () => this.thought && this.thought.open && this.thoughtView.show(this.node.reasoning),
      );
      this.body.before(this.thought);
    }
    const thinking = node.status === 'running' && !node.content && !(node.calls || []).length;
    this.thoughtTitle.textContent = thinking
      ? t('thinking')
      : node.thoughtSeconds >= 0.5
        ? t('thoughtTime', { time: duration(node.thoughtSeconds) })
        : t('thought');
    this.thought.classList.toggle('active', thinking);
    if (this.thought.open) this.thoughtView.show(node.reasoning); // a folded one costs nothing
  }
  updateCalls() {
    const calls = this.node.calls || [];
    const key = JSON.stringify([calls, this.node.status]);
    if (key === this.shownCalls) return;
    this.shownCalls = key;
    replace(
      this.calls,
      calls.map((call) =>
        el(
          'details',
          { class: 'call', open: true },
          el('summary', {}, `${t('call')}: `, el('code', {}, call.name)),
          codeBlock(prettyJson(call.arguments), 'json'),
        ),
      ),
    );
    if (calls.length && this.wantsResults) this.calls.append(this.resultForm(calls));
  }
  // What the tools would have returned, written by the user.
  resultForm(calls) {
    const areas = calls.map((call) =>
      el('textarea', {
        'rows': '2',
        'class': 'mono',
        'aria-label': t('callResult', { name: call.name }),
        'placeholder': t('callResult', { name: call.name }),
      }),
    );
    return el(
      'form',
      {
        class: 'results',
        on: {
          submit: (event) => {
            event.preventDefault();
            this.actions.results(
              this.node,
              areas.map((area) => area.value),
            );
          },
        },
      },
      areas,
      el('button', { type: 'submit', class: 'primary' }, t('sendResults')),
    );
  }
  updateState() {
    const { node } = this;
    const waits = node.status === 'running' && !node.content && !node.reasoning && !(node.calls || []).length;
    const text = waits
      ? t('waiting')
      : node.status === 'failed'
        ? node.error === 'lost'
          ? t('lost')
          : t('failed', { why: node.error })
        : node.status === 'stopped'
          ? t('stopped')
          : node.status === 'cut'
            ? t('cut')
            : '';
    this.state.className = `state ${node.status || ''}`;
    this.article.classList.toggle('running', node.status === 'running');
    this.article.setAttribute('aria-busy', String(node.status === 'running'));
    if (this.state.textContent !== text) replace(this.state, text);
  }
  // The buttons under the message. `last`: nothing follows it.
  updateTools(last) {
    const { node, actions } = this;
    this.wantsResults = last && node.status !== 'running';
    this.shownCalls = null;
    this.updateCalls();
    const siblings = siblingsOf(this.conversation, node),
      at = siblings.findIndex((one) => one.id === node.id);
    const buttons = [];
    if (node.status !== 'running') {
      const copy = iconButton('copy', t('copy'), async () => {
        await copyText(node.content);
        replace(copy, icon('done'));
        setTimeout(() => replace(copy, icon('copy')), 1500);
      });
      copy.classList.add('copy');
      buttons.push(copy);
      if (node.role !== 'tool') buttons.push(iconButton('edit', t('edit'), () => this.edit()));
      if (node.role === 'assistant') buttons.push(iconButton('retry', t('regenerate'), () => actions.regenerate(node)));
      if (this.canContinue(last)) buttons.push(iconButton('go', t('continue'), () => actions.continue(node)));
    }
    if (siblings.length > 1)
      buttons.push(
        el(
          'span',
          { 'class': 'branches', 'role': 'group', 'aria-label': t('version', { n: at + 1, all: siblings.length }) },
          iconButton('left', t('previous'), () => actions.switch(node, -1), { disabled: at === 0 }),
          el('span', {}, `${at + 1}/${siblings.length}`),
          iconButton('right', t('next'), () => actions.switch(node, 1), { disabled: at === siblings.length - 1 }),
        ),
      );
    replace(this.tools, buttons);
  }
  canContinue(last) {
    const { node } = this;
    return (
      last &&
      node.role === 'assistant' &&
      node.status !== 'running' &&
      node.content.trim() &&
      !(node.calls || []).length &&
      !this.conversation.settings.format
    );
  }
  edit() {
    const { node, actions } = this;
    if (node.status === 'running' || node.role === 'tool' || this.editing) return;
    this.editing = true;
    const area = el('textarea', {
      'class': 'edit',
      'value': node.content,
      'aria-label': t('edit'),
      'rows': String(Math.min(20, node.content.split('\n').length + 2)),
    });
    const leave = () => {
      this.editing = false;
      if (this.markdown) {
        replace(this.body);
        this.markdown = new MarkdownView(this.body);
      }
      this.update();
      this.article.focus();
    };
    const save = () => {
      this.editing = false;
      actions.edit(node, area.value);
    };
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        leave();
      } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        save();
      }
    });
    replace(
      this.body,
      area,
      el(
        'div',
        { class: 'dialog-buttons' },
        el('button', { type: 'button', on: { click: leave } }, t('cancel')),
        el(
          'button',
          { type: 'button', class: 'primary', on: { click: save } },
          t(node.role === 'user' ? 'editSend' : 'editSave'),
        ),
      ),
    );
    area.focus();
  }
}
