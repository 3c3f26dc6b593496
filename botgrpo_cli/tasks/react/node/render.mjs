// Draws compiled React components in a headless browser: one JSON request a line on stdin, one JSON answer on stdout.
//   node render.mjs <folder with node_modules> <settings>
//   settings: {"browser": path, "sandbox": bool, "samples": a page, "seconds": a sample, "patience": times that,
//              "folder": for temporary files, removed at the end}
//   {"id": 1, "code": "…"}  ->  {"id": 1, "outcome", "why", "screenshot": base64 or null, "probe", "console", "errors"}
// An answer with "infrastructure" means that the browser does not draw at all. The process ends with its browser and
// with its parent; the code of a sample runs in the browser only.
import { rmSync } from 'node:fs';
import { Stage, prepare } from './stage.mjs';

const settings = JSON.parse(process.argv[3]);
const OPENING = 4000; // ms, for a new document; takes 50, and a second on a very busy machine
const REPLACING = 15000; // ms, for a new page

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Resolves when the browser has worked for `seconds` over the sample; by the clock at the latest after `patience` times
 * that, for a busy machine may hardly let it work.
 */
async function outOfTime(stage, { seconds, patience }, over) {
  const start = performance.now();
  const elapsed = () => (performance.now() - start) / 1000;
  for (let left = seconds; left > 0.02 && elapsed() < patience * seconds; ) {
    await pause(left * 1000);
    if (over()) return null;
    left = seconds - (await Promise.race([stage.spent(), pause(OPENING).then(elapsed)]));
  }
  return { late: true };
}

/** A new page, whatever the sample before this one does to keep its own; the time is not charged to this one. */
async function visit(stage) {
  if (stage.worn) await replace(stage);
  const opened = stage.visit();
  opened.catch(() => {});
  const done = await Promise.race([opened.then(() => true, () => false), stage.crashed.then(() => false), pause(OPENING)]);
  if (done) return;
  await replace(stage);
  await stage.visit();
}

/** A new context with a new page; if even that hangs, this process is replaced. */
async function replace(stage) {
  if (!(await Promise.race([stage.discard().then(() => true), pause(REPLACING)]))) process.exit(3);
}

async function render(stage, code) {
  const [sample] = await Promise.all([prepare(code), visit(stage)]);
  let over = false;
  // A page that crashes fails what was asked of it first and is known to have crashed a moment later.
  const drawing = stage.draw(sample).catch((error) => Promise.race([stage.crashed, pause(2000).then(() => Promise.reject(error))]));
  drawing.catch(() => {}); // it fails later, when the page is taken away
  const first = await Promise.race([drawing, stage.crashed, outOfTime(stage, settings, () => over)]);
  over = true;
  if (first.outcome) {
    stage.rest();
    return first;
  }
  await replace(stage);
  const why = first.late ? `It was not drawn within ${settings.seconds} s of work.` : 'It crashed its page, most likely out of memory.';
  return { outcome: first.late ? 'timeout' : 'crashed', why, console: [], errors: [] };
}

const KNOWN = 'export default () => <button className="rounded-lg bg-blue-500 px-4" onClick={() => location.reload()}>Press</button>;';

/** A sentence when a known component does not come out as it should. */
async function selfTest(stage) {
  const { outcome, why, probe } = await render(stage, KNOWN);
  if (outcome !== 'drawn') return `Chromium does not draw a known component: ${why}`;
  if (probe.text !== 'Press') return 'Chromium draws no text: there may be no fonts (on Debian: apt-get install fonts-dejavu-core).';
  if (probe.live_controls !== 1) return 'The button of a known component is not seen in the page.';
  return null;
}

async function serve(stage, requests) {
  for await (const { id, code } of requests) {
    const start = performance.now();
    const answer = await render(stage, code);
    say({ id, screenshot: null, probe: null, ...answer, seconds: (performance.now() - start) / 1000 });
  }
}

/** The lines of stdin as they come. The process ends with stdin even while it is busy. */
function listen(stage) {
  const waiting = [];
  let wake = () => {};
  let text = '';
  process.stdin.setEncoding('utf8');
  process.stdin.on('data', (chunk) => {
    text += chunk;
    const lines = text.split('\n');
    text = lines.pop();
    waiting.push(...lines.map((line) => JSON.parse(line)));
    wake();
  });
  process.stdin.on('end', async () => {
    process.on('unhandledRejection', () => {}); // whatever was going on fails now
    await Promise.race([stage.close(), pause(2000)]);
    process.exit(0);
  });
  return (async function* () {
    for (;;) {
      while (waiting.length) yield waiting.shift();
      await new Promise((resolve) => (wake = resolve));
    }
  })();
}

async function main() {
  const stage = new Stage(settings);
  const requests = listen(stage);
  const about = await stage.open();
  // The parent may be gone and not do it. Playwright's own handler, which ends the browser for good, comes before.
  process.on('exit', () => rmSync(settings.folder, { recursive: true, force: true, maxRetries: 20 }));
  stage.onEnd(() => process.stdin.readableEnded || process.exit(4));
  const broken = await selfTest(stage);
  say(broken ? { infrastructure: broken } : { ready: true, ...about });
  await serve(stage, requests);
}

await main();
