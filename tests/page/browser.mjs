// Chromium over its debugging pipe: nothing but node is needed to drive it.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Browser {
  static async launch(program) {
    const browser = new Browser();
    browser.folder = await mkdtemp(join(tmpdir(), 'heddle-page-'));
    // a sandbox needs rights that containers do not have; the pages are our own
    const options = [
      '--headless=new',
      '--remote-debugging-pipe',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-extensions',
      '--lang=en-US',
      '--force-color-profile=srgb',
      // as with a mouse
      '--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4',
      `--user-data-dir=${browser.folder}`,
      'about:blank',
    ];
    browser.child = spawn(program, options, {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
      env: { ...process.env, LANGUAGE: 'en_US', LANG: 'C.UTF-8' },
    });
    browser.next = 1;
    browser.waiting = new Map();
    browser.listeners = [];
    browser.ended = new Promise((resolve) => browser.child.on('exit', resolve));
    let buffer = '';
    browser.child.stdio[4].setEncoding('utf8').on('data', (data) => {
      buffer += data;
      for (let end; (end = buffer.indexOf('\0')) >= 0; buffer = buffer.slice(end + 1))
        browser.receive(JSON.parse(buffer.slice(0, end)));
    });
    browser.ended.then(() => {
      for (const { reject } of browser.waiting.values()) reject(new Error('the browser has ended'));
    });
    return browser;
  }
  receive(message) {
    if (!message.id) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    const { resolve, reject } = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }
  // With a storage of its own.
  async newPage({ width = 1200, height = 800, mobile = false } = {}) {
    const { browserContextId } = await this.send('Target.createBrowserContext', { disposeOnDetach: true });
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId, browserContextId);
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await page.send(`${domain}.enable`);
    await page.resize(width, height, mobile);
    return page;
  }
  async close() {
    this.send('Browser.close').catch(() => {});
    await Promise.race([this.ended, wait(5000).then(() => this.child.kill('SIGKILL'))]);
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

// name: [code, key code, text]
const keys = {
  Enter: ['Enter', 13, '\r'],
  Escape: ['Escape', 27],
  Tab: ['Tab', 9],
  ArrowUp: ['ArrowUp', 38],
  ArrowDown: ['ArrowDown', 40],
  Backspace: ['Backspace', 8],
};

class Page {
  constructor(browser, sessionId, targetId, browserContextId) {
    Object.assign(this, { browser, sessionId, targetId, browserContextId, requests: [], problems: [] });
    browser.listeners.push((message) => message.sessionId === sessionId && this.on(message));
  }
  on({ method, params }) {
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
    if (method === 'Runtime.exceptionThrown')
      this.problems.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') this.problems.push(params.entry.text);
    if (method === 'Runtime.consoleAPICalled' && params.type === 'error')
      this.problems.push(params.args.map((one) => one.value).join(' '));
  }
  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }
  // Runs in every document before its own scripts.
  beforeLoad(source) {
    return this.send('Page.addScriptToEvaluateOnNewDocument', { source });
  }
  async goto(url) {
    await this.send('Page.navigate', { url });
    await this.waitFor(() => document.readyState === 'complete');
  }
  async reload() {
    await this.evaluate(() => (window.before = true));
    await this.send('Page.reload');
    await this.waitFor(() => !window.before && document.readyState === 'complete');
  }
  // The value of a function that runs in the page.
  async evaluate(work, ...values) {
    const expression = typeof work === 'string' ? work : `(${work})(...${JSON.stringify(values)})`;
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }
  async waitFor(work, ...values) {
    let last;
    for (const end = Date.now() + 20000; Date.now() < end; await wait(30)) {
      last = await this.evaluate(work, ...values).catch(() => undefined); // between two pages there is nothing to ask
      if (last) return last;
    }
    const shown = await this.evaluate(() => document.body.innerText);
    throw new Error(`waited in vain for ${work} ${JSON.stringify(values)}; the page shows: ${shown}`);
  }
  async click(selector) {
    await this.waitFor((one) => document.querySelector(one), selector);
    const placeOf = () =>
      this.evaluate((one) => {
        const node = document.querySelector(one);
        node.scrollIntoView({ block: 'center' });
        const box = node.getBoundingClientRect();
        return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
      }, selector);
    // some are only there under the mouse
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', ...(await placeOf()) });
    const place = await placeOf();
    for (const type of ['mousePressed', 'mouseReleased'])
      await this.send('Input.dispatchMouseEvent', { type, ...place, button: 'left', clickCount: 1 });
  }
  async type(text) {
    await this.send('Input.insertText', { text });
  }
  async press(key, modifiers = {}) {
    const [code, number, text] = keys[key] || [
      /^[a-z]$/i.test(key)
        ? `Key${key.toUpperCase()}`
        : { ',': 'Comma', '/': 'Slash', '?': 'Slash', '[': 'BracketLeft', ']': 'BracketRight' }[key],
      key.toUpperCase().charCodeAt(0),
      key,
    ];
    const flags = (modifiers.alt ? 1 : 0) | (modifiers.ctrl ? 2 : 0) | (modifiers.shift ? 8 : 0);
    const what = { key, code, windowsVirtualKeyCode: number, modifiers: flags };
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...what, text: flags & 3 ? undefined : text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...what });
  }
  resize(width, height, mobile = false) {
    return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile });
  }
  scheme(value) {
    return this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
  }
  async setFiles(selector, files) {
    const { root } = await this.send('DOM.getDocument');
    const { nodeId } = await this.send('DOM.querySelector', { nodeId: root.nodeId, selector });
    await this.send('DOM.setFileInputFiles', { nodeId, files });
  }
  async screenshot(path) {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    await writeFile(path, Buffer.from(data, 'base64'));
  }
  close() {
    return this.browser.send('Target.disposeBrowserContext', { browserContextId: this.browserContextId });
  }
}
