// What is in a page before the code of a sample: shims, records, mounting, and the wait until it is drawn.
// The function runs in the page, so it takes what it needs from the page before a sample can replace it. A sample that
// tampers with it anyway changes its own timing and its own messages: what is drawn is judged from outside (probe.mjs).

/** Installs itself under `key`. `limits`: {settle, quiet: ms, records, cut, epoch: ms, controls: selector} */
export function prelude(key, limits) {
  const { Object, String, Reflect, Promise, Map, JSON, Math, Date, Function, MutationObserver, ErrorEvent, document } = window;
  const nothing = () => {};
  const now = performance.now.bind(performance);
  const timer = window.setTimeout.bind(window);
  const define = (name, value, on = window) => Object.defineProperty(on, name, { value, writable: true, configurable: true });

  const logs = [];
  const errors = [];
  function words(value) {
    try {
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
    } catch {
      return '(a value that cannot be printed)';
    }
  }
  function note(list, ...values) {
    if (list.length < limits.records) list[list.length] = values.map(words).join(' ').slice(0, limits.cut);
  }

  // A flood of messages costs nothing when none leaves the page.
  const quiet = {};
  for (const name of Object.getOwnPropertyNames(console)) quiet[name] = nothing;
  for (const name of ['log', 'info', 'warn', 'error', 'debug']) quiet[name] = (...values) => note(logs, `${name}:`, ...values);
  define('console', quiet);
  for (const name of ['alert', 'print', 'stop']) define(name, nothing);
  define('confirm', () => false);
  define('prompt', () => null);
  define('open', () => null);
  if (window !== window.top) return; // frames get no more than silence
  window.name = '';

  window.addEventListener(
    'error',
    (event) => {
      if (!(event instanceof ErrorEvent)) return; // an image that did not load
      note(errors, event.error instanceof Error ? event.error : event.message);
      event.preventDefault(); // else each goes out to the browser as well
    },
    true,
  );
  window.addEventListener('unhandledrejection', (event) => {
    note(errors, event.reason);
    event.preventDefault();
  });

  // Storage is refused to a page without an origin; components use it and should not fail over it.
  function storage() {
    const items = new Map();
    return {
      getItem: (name) => items.get(String(name)) ?? null,
      setItem: (name, value) => void items.set(String(name), String(value)),
      removeItem: (name) => void items.delete(String(name)),
      clear: () => items.clear(),
      key: (index) => [...items.keys()][index] ?? null,
      get length() {
        return items.size;
      },
    };
  }
  define('localStorage', storage());
  define('sessionStorage', storage());
  Object.defineProperty(document, 'cookie', { get: () => '', set: nothing });
  for (const name of ['pushState', 'replaceState']) define(name, nothing, History.prototype);
  define('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
  for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete window[name];

  // The same picture each time: random numbers from a fixed seed, a clock that starts at a fixed moment.
  let seed = 1;
  Math.random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const shift = limits.epoch - Date.now();
  const today = () => Date.now() + shift;
  const shifted = new Proxy(Date, {
    apply: () => new Date(today()).toString(),
    construct: (target, values, self) => Reflect.construct(target, values.length ? values : [today()], self),
    get: (target, name) => (name === 'now' ? today : target[name]),
  });
  Date.prototype.constructor = shifted;
  define('Date', shifted);

  let start = Infinity; // of the sample
  let due = 0; // when the last of its short timers fires
  window.setTimeout = function setTimeout(run, delay, ...rest) {
    const at = now() + (Number(delay) || 0);
    if (at > due && at <= start + limits.settle) due = at;
    return timer(run, delay, ...rest);
  };

  // React's own props of an element hold its handlers; their key has a random end.
  const ownNames = Object.getOwnPropertyNames;
  const source = Function.prototype.toString;
  const propsOf = (element) => {
    const name = ownNames(element).find((own) => own.startsWith('__reactProps$'));
    return (name && element[name]) || {};
  };
  const empty = /^(?:async\s*)?(?:function\s*\w*\s*)?(?:\([^()]*\)|\w+)\s*(?:=>)?\s*\{\s*\}$/;
  const handles = (props, ...names) =>
    names.some((name) => typeof props[name] === 'function' && !empty.test(source.call(props[name])));

  /** Does using it do something: a handler, or what the browser itself does? */
  function live(element) {
    const props = propsOf(element);
    if (props.disabled) return false;
    if (handles(props, 'onClick', 'onMouseDown', 'onPointerDown')) return true;
    const tag = element.localName;
    if (tag === 'a') return !/^(?:#?$|javascript:)/i.test(String(props.href ?? element.getAttribute('href')).trim());
    const button = tag === 'button' || (tag === 'input' && /^(?:submit|button|reset|image)$/.test(element.type));
    if (button) return element.type === 'submit' && !!element.form && handles(propsOf(element.form), 'onSubmit');
    if (tag !== 'input' && tag !== 'select' && tag !== 'textarea') return false;
    // React puts the value of a controlled field back when nothing handles the change.
    const held = (props.value ?? props.checked) != null || props.readOnly;
    return !held || handles(props, 'onChange', 'onInput');
  }

  const select = document.querySelectorAll.bind(document);
  const textOf = Object.getOwnPropertyDescriptor(HTMLElement.prototype, 'innerText').get;
  const bodyOf = Object.getOwnPropertyDescriptor(Document.prototype, 'body').get;
  function shows() {
    const body = bodyOf.call(document);
    if (!body) return false;
    if (textOf.call(body).trim()) return true;
    return [...select('img, svg, canvas, input, button, select, textarea')].some((element) => element.getBoundingClientRect().width > 3);
  }

  const TICK = 20; // ms
  let loaded = false;
  let changed = 0;
  let seen = false;
  const watch = new MutationObserver(() => {
    changed = now();
  });

  /** Runs the sample, with a style sheet if there is one. Resolves when something is there and all is quiet, at the latest `limits.settle` ms later. */
  async function run(sample, css) {
    // Only the wait may be skipped, so that a sample's own endless loop is seen by who waits for this function.
    if (document.readyState === 'loading') await new Promise((resolve) => document.addEventListener('DOMContentLoaded', resolve));
    if (css) {
      const sheet = document.createElement('style');
      sheet.textContent = css;
      document.head.append(sheet);
    }
    start = changed = now();
    watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    sample().then(
      () => (loaded = true),
      (error) => {
        loaded = true;
        note(errors, error);
      },
    );
    return new Promise((resolve) => {
      let looks = 0;
      const look = () => {
        const at = now();
        looks = changed === known ? looks + 1 : 0; // on a busy machine time passes in which nothing could happen
        known = changed;
        const still = looks >= 5 && at - changed >= limits.quiet && at >= due + TICK;
        if (loaded && still && (seen ||= shows())) resolve();
        else if (at - start < limits.settle) timer(look, TICK);
        else timer(resolve, TICK); // what React has put off until its next turn is still drawn
      };
      let known = changed;
      timer(look, TICK);
    });
  }

  function mount(exported) {
    const { createRoot } = window.__vendor['react-dom/client'];
    const { createElement } = window.__vendor.react;
    if (window.__vendor.mounts) return; // it has mounted itself
    const component = 'default' in exported ? exported.default : exported.__botgrpoApp;
    if (component == null) return note(errors, 'There is no component to render');
    const root = createRoot(document.getElementById('root'), { onUncaughtError: (error) => note(errors, error) });
    root.render(createElement(component));
  }

  const report = () => ({ logs, errors, live: [...select(limits.controls)].slice(0, 2000).map(live) });
  Object.defineProperty(window, key, { value: { run, mount, report } });
}
