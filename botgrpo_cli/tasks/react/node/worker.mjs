// Checks React components: one JSON request a line on stdin, one JSON answer a line on stdout, one in flight.
//   node worker.mjs <folder with node_modules>
//   {"id": 1, "code": "…"}  ->  {"id": 1, "language", "errors", "findings", "parsed", "component", "markup"}
// An answer with "infrastructure" means that the tools themselves are broken. The code is parsed, never run.
import { Worker } from 'node:worker_threads';
import { compile } from './compile.mjs';
import { lint, selfTest } from './lint.mjs';
import { finding, load, tidy } from './toolchain.mjs';

/**
 * Where TypeScript's parser, which recovers after an error, stumbles: esbuild stops at the first one. `swallowed` is the
 * line where text begins that never ends (a template, an attribute, a comment), null without one.
 */
function parseFindings(code) {
  const ts = load('typescript');
  try {
    const file = ts.createSourceFile('component.tsx', code, ts.ScriptTarget.Latest, false, ts.ScriptKind.TSX);
    const lineOf = (position) => file.getLineAndCharacterOfPosition(position).line + 1;
    const findings = file.parseDiagnostics.map((d) => finding(lineOf(d.start), 'syntax', ts.flattenDiagnosticMessageText(d.messageText, ' ')));
    const opened = [];
    const visit = (node) => {
      if (node.isUnterminated) opened.push(node.getStart(file));
      ts.forEachChild(node, visit);
    };
    visit(file);
    const comment = code.indexOf('/*', code.lastIndexOf('*/') + 2);
    if (comment >= 0 && findings.some((f) => f.message === "'*/' expected.")) opened.push(comment);
    return { findings, swallowed: opened.length ? lineOf(Math.min(...opened)) : null };
  } catch (error) {
    if (error instanceof RangeError) return { findings: [], swallowed: null }; // deeper than the stack; esbuild's error stands
    throw error;
  }
}

/**
 * Both tools notice an open text at the end of the file only. It is the opening that is wrong: left at the end, an answer
 * that starts with one would count as clean up to its last line, and a policy has learnt to write just that.
 */
function blamed({ findings, swallowed }, errors) {
  const all = [...errors, ...findings];
  return swallowed === null ? all : all.map((f) => (f.line > swallowed ? { ...f, line: swallowed } : f));
}

/** Why a file that builds still holds no component, as compile errors. */
function missing({ component, markup, exportLine, refused }) {
  if (!component && exportLine) return [...refused, finding(exportLine, 'component', 'The default export is not a component')];
  if (!component) return [...refused, finding(null, 'component', 'There is no default export and no App component')];
  if (!markup) return [...refused, finding(null, 'component', 'The component renders no JSX')];
  return refused;
}

async function check(code) {
  const { language, errors } = await compile(code);
  if (errors.some((e) => e.rule === 'syntax')) {
    const all = tidy(blamed(parseFindings(code), errors), 20);
    return { language, errors: all, findings: [], parsed: false, component: false, markup: false };
  }
  const { infrastructure, parsed, facts, findings } = lint(code, language);
  if (infrastructure) return { infrastructure };
  const problems = facts ? missing(facts) : findings;
  return {
    language,
    errors: tidy([...errors, ...problems], 20),
    findings: parsed ? findings : [],
    parsed,
    component: facts?.component ?? false,
    markup: facts?.markup ?? false,
  };
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

// Stdin ends when the parent is gone, but a worker that is busy then would not notice: a thread looks now and again.
const WATCH = `const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 2000);`;

async function main() {
  new Worker(WATCH, { eval: true }).unref();
  const { errors } = await compile('export default () => <p />;');
  const broken = errors.length ? `esbuild refuses a known file: ${errors[0].message}.` : selfTest();
  say(broken ? { infrastructure: broken } : { ready: true });
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) {
    text += chunk;
    let end;
    while ((end = text.indexOf('\n')) >= 0) {
      const request = JSON.parse(text.slice(0, end));
      text = text.slice(end + 1);
      say({ id: request.id, ...(await check(request.code)) });
    }
  }
  process.exit(0);
}

await main();
