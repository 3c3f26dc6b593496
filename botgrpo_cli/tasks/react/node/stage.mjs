// One browser with one page in it, in which sample after sample is drawn. A sample gets a new document each time; the
// page itself and its context are replaced after some samples and after every failure.
import { bundleSample, vendorBundle } from './bundle.mjs';
import { blank, decode, measure } from './pixels.mjs';
import { prelude } from './prelude.mjs';
import { CONTROLS, probe } from './probe.mjs';
import { tailwindFor } from './tailwind.mjs';
import { load } from './toolchain.mjs';

const { chromium } = load('playwright-core');

const SIZE = { width: 1024, height: 768 };
const HOME = 'https://app.test/'; // answered below, never by a network
const IDLE = 100; // ms
const PICTURES = 200; // answered for one sample; the others are refused
const LIMITS = { settle: 600, quiet: 100, records: 50, cut: 300, epoch: Date.UTC(2025, 0, 15, 10, 30), controls: CONTROLS };
const PROBE = { ...SIZE, nodes: 20000, texts: 600 };
const KEY = `__botgrpo_${Math.random().toString(36).slice(2)}`;

const encoded = (text) => Buffer.from(text).toString('base64');

const POLICY = [
  'sandbox allow-scripts', // no origin, no storage, no windows, no dialogs, no forms sent, no downloads
  "default-src 'none'",
  "script-src 'unsafe-eval'", // calculators use it, and it can't do more than the code that calls it
  "style-src 'unsafe-inline'",
  'img-src * data: blob:', // answered with a grey picture
  'font-src data:',
  'media-src data: blob:',
  "form-action 'none'",
  "base-uri 'none'",
  "webrtc 'block'",
].join('; ');
const PAGE = encoded(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>App</title>
<style>*, *::before, *::after { caret-color: transparent !important; }</style></head><body><div id="root"></div></body></html>`);
const PICTURE = encoded(`<svg xmlns="http://www.w3.org/2000/svg" width="160" height="120"><rect width="160" height="120" fill="#c8ccd2"/>
<path d="M20 100l40-50 30 36 18-20 32 34z" fill="#a9b0ba"/><circle cx="112" cy="36" r="12" fill="#a9b0ba"/></svg>`);

const FLAGS = [
  '--js-flags=--max-old-space-size=256',
  '--font-render-hinting=none',
  '--disable-lcd-text',
  '--disable-gpu',
  // In place of Playwright's list, of which this keeps what matters here. RenderDocument makes a whole new frame for each
  // document: a sixth of the time of a sample.
  '--disable-features=RenderDocument,PaintHolding,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,OptimizationHints,MediaRouter,' +
    'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,ThirdPartyStoragePartitioning',
  // Where the machine does not let the network be taken away, these do: no name is known, all else goes to a dead end.
  '--host-resolver-rules=MAP * ~NOTFOUND',
  '--proxy-server=socks5://127.0.0.1:9',
  '--proxy-bypass-list=<-loopback>',
];

// React's production build has numbers for its messages; these are the ones that components run into.
const REACT_ERRORS = {
  31: 'Objects are not valid as a React child',
  130: 'Element type is invalid: it is not a component',
  185: 'Maximum update depth exceeded: state is set again and again',
  299: 'The target container is not a DOM element',
  300: 'Rendered fewer hooks than expected',
  301: 'Too many re-renders: state is set while rendering',
  310: 'Rendered more hooks than during the previous render',
  321: 'Invalid hook call: hooks can only be called inside of the body of a function component',
};
const readable = (error) => error.replace(/Minified React error #(\d+);.*/s, (_, code) => REACT_ERRORS[code] ?? `React error ${code}`);

// What the browser says when the document that was asked has gone.
const LEFT = /navigated|context|collected/i;

/** What was asked of a page threw there. */
class PageError extends Error {}

export class Stage {
  #browser;
  #system; // session with the browser itself
  #script;
  #context;
  #page;
  #cdp;
  #frame;
  #samples = 0;
  #most; // of these
  #address = '';
  #served = false;
  #pictures = 0;
  #idle = null; // timer
  #spent = 0; // processor seconds of the browser when the sample began

  constructor({ browser, sandbox, samples }) {
    this.#most = samples;
    this.launching = chromium.launch({
      executablePath: browser,
      chromiumSandbox: sandbox,
      args: FLAGS,
      ignoreDefaultArgs: ['--disable-ipc-flooding-protection'],
      handleSIGINT: false,
    });
  }

  async open() {
    this.#browser = await this.launching;
    this.#system = await this.#browser.newBrowserCDPSession();
    const vendor = await vendorBundle();
    this.#script = `(${prelude})(${JSON.stringify(KEY)}, ${JSON.stringify(LIMITS)});\nif (window === window.top) { ${vendor} }`;
    await this.#renew();
    const { processInfo } = await this.#system.send('SystemInfo.getProcessInfo');
    return { browser: processInfo.find(({ type }) => type === 'browser').id, version: this.#browser.version() };
  }

  /** Calls `gone` once the browser has ended, for whatever reason. */
  onEnd(gone) {
    this.#browser.once('disconnected', gone);
  }

  close() {
    return this.#browser?.close();
  }

  async #renew() {
    this.#context = await this.#browser.newContext({
      viewport: SIZE,
      deviceScaleFactor: 1,
      locale: 'en-US',
      timezoneId: 'UTC',
      colorScheme: 'light',
      acceptDownloads: false,
      serviceWorkers: 'block',
    });
    await this.#context.addInitScript({ content: this.#script });
    this.#page = await this.#context.newPage();
    this.crashed = new Promise((resolve) => this.#page.once('crash', () => resolve({ crashed: true })));
    const cdp = await this.#context.newCDPSession(this.#page);
    cdp.on('Fetch.requestPaused', (request) => this.#answer(cdp, request).catch(() => {}));
    await cdp.send('Fetch.enable', { patterns: [{ urlPattern: '*' }] });
    this.#frame = (await cdp.send('Page.getFrameTree')).frameTree.frame.id;
    this.#cdp = cdp;
    this.#samples = 0;
  }

  /** Ends whatever the page is doing and makes a new one. */
  async discard() {
    await this.#context.close();
    await this.#renew();
  }

  /** Answers a request for the page itself, or for a picture. Nothing else is answered, and nothing by a network. */
  #answer(cdp, { requestId, request, resourceType }) {
    const answer = (type, body, more = []) => {
      const responseHeaders = [{ name: 'content-type', value: type }, ...more];
      return cdp.send('Fetch.fulfillRequest', { requestId, responseCode: 200, responseHeaders, body });
    };
    if (resourceType === 'Document' && request.url === this.#address && !this.#served) {
      this.#served = true; // a reload is refused
      return answer('text/html', PAGE, [{ name: 'content-security-policy', value: POLICY }]);
    }
    if (resourceType === 'Image' && this.#pictures++ < PICTURES) return answer('image/svg+xml', PICTURE);
    return cdp.send('Fetch.failRequest', { requestId, errorReason: 'Aborted' }); // and the page stays where it is
  }

  /** Has the page served long enough? */
  get worn() {
    return this.#samples >= this.#most;
  }

  /** A new document for the next sample. */
  async visit() {
    clearTimeout(this.#idle);
    this.#samples += 1;
    this.#pictures = 0;
    this.#served = false;
    this.#address = `${HOME}${this.#samples}`;
    const { errorText } = await this.#cdp.send('Page.navigate', { url: this.#address });
    if (errorText) throw new Error(`The page for a sample does not open: ${errorText}`);
    this.#spent = 0;
    this.spent().then((seconds) => (this.#spent = seconds), () => {});
  }

  /** Takes the last sample's page away unless another sample comes soon: what it still does would cost others time. */
  rest() {
    this.#idle = setTimeout(() => this.#cdp.send('Page.navigate', { url: 'about:blank' }).catch(() => {}), IDLE);
  }

  /** Processor seconds that the browser's processes have used since the sample began. */
  async spent() {
    const { processInfo } = await this.#system.send('SystemInfo.getProcessInfo');
    return processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0) - this.#spent;
  }

  async #evaluate(expression, more = {}) {
    const { result, exceptionDetails } = await this.#cdp.send('Runtime.evaluate', { expression, returnByValue: true, ...more });
    if (exceptionDetails) throw new PageError(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until a sample is drawn, but not for a page that answers and whose own clock has stopped. */
  async #run(script) {
    const running = this.#evaluate(script, { awaitPromise: true });
    let over = false;
    const end = running.then(() => (over = true), () => (over = true));
    for (let answers = 0; answers < 16; answers++) { // many, so that a busy machine fails no page
      await Promise.race([end, new Promise((resolve) => setTimeout(resolve, LIMITS.settle + 100))]);
      if (!over) await Promise.race([end, this.#evaluate('0')]);
      if (over) return running;
    }
    throw new PageError('its timers or promises do not work any more');
  }

  /** Draws one sample on the page just visited: {outcome, why, screenshot, probe, console, errors}. */
  async draw({ script, problem }) {
    if (problem) return { outcome: 'error', why: problem, console: [], errors: [problem] };
    try {
      await this.#run(script);
      const { logs, live, ...report } = await this.#evaluate(`window.${KEY}.report()`);
      const errors = report.errors.map(readable);
      const { executionContextId } = await this.#cdp.send('Page.createIsolatedWorld', { frameId: this.#frame, worldName: 'probe' });
      const words = [live, CONTROLS, PROBE].map((value) => JSON.stringify(value)).join(', ');
      const facts = await this.#evaluate(`(${probe})(${words})`, { contextId: executionContextId, awaitPromise: true });
      const { data } = await this.#cdp.send('Page.captureScreenshot', { format: 'png', optimizeForSpeed: true });
      const found = measure(decode(Buffer.from(data, 'base64')), facts);
      const why = blank(found);
      const outcome = !why ? 'drawn' : errors.length ? 'error' : 'blank';
      return { outcome, why: outcome === 'error' ? `${errors[0]} (${why})` : why, screenshot: data, probe: found, console: logs, errors };
    } catch (error) {
      if (error instanceof PageError) return { outcome: 'error', why: `It broke its page: ${error.message}`, console: [], errors: [] };
      if (!LEFT.test(error.message)) throw error;
      return { outcome: 'blank', why: 'It left its page.', console: [], errors: [] };
    }
  }
}

/** What `draw` needs of a sample's code, made outside the browser. */
export async function prepare(code) {
  const { problem, body } = await bundleSample(code, KEY);
  if (problem) return { problem };
  return { script: `window.${KEY}.run(async () => {\n"use strict";\n${body}\n}, ${JSON.stringify(await tailwindFor(code))})` };
}
