// Compiling = an esbuild `build` with every import answered by the plugin. The result is thrown away: nothing runs here.
import { SourceMap } from 'node:module';
import { finding, load } from './toolchain.mjs';
import { importsPlugin } from './vendor.mjs';

const esbuild = load('esbuild');

const COMMON = { logLevel: 'silent', logLimit: 20, charset: 'utf8', tsconfigRaw: '{}' };

function toFinding(message) {
  const rule = message.pluginName ? 'import' : message.text.startsWith('No matching export') || undefinedMember(message) ? 'export' : 'syntax';
  const text = message.text.replaceAll('"vendor:', '"');
  return { ...finding(message.location?.line, rule, text), column: message.location?.column ?? 0 };
}

function originalLine(map, { line, column }) {
  const entry = line ? map.findEntry(line - 1, column) : {};
  return { line: entry.originalLine === undefined ? null : entry.originalLine + 1 };
}

// A member of a module object that no version of the module has, as in `React.useFoo()`: only a warning to esbuild.
const undefinedMember = (message) => message.id === 'import-is-undefined';

async function attempt(job) {
  try {
    const { warnings } = await job();
    return warnings.filter(undefinedMember).map(toFinding);
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error; // the esbuild process is gone: the worker must be replaced
    return error.errors.map(toFinding);
  }
}

/** Options of a build whose imports are all answered here; the code of a component is `contents`. */
export const buildOptions = (contents, language) => ({
  ...COMMON,
  stdin: { contents, sourcefile: 'component.jsx', loader: 'jsx' },
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'browser',
  jsx: 'automatic',
  plugins: [importsPlugin(language)],
});

const bundle = (contents, language) => attempt(() => esbuild.build(buildOptions(contents, language)));

/** TypeScript to JSX, with every import kept and a source map beside. */
export const stripTypes = (code) =>
  esbuild.transform(code, {
    ...COMMON,
    loader: 'tsx',
    jsx: 'preserve',
    sourcemap: 'external',
    sourcefile: 'component.tsx',
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
  });

/**
 * Plain JSX first. Only a syntax error sends the code through the TypeScript grammar: loader `tsx` alone would drop
 * unused imports without a word, and with them the packages that do not exist. `verbatimModuleSyntax` keeps them.
 * Lines of the stripped code are led back to the original ones through the source map.
 */
export async function compile(code) {
  const errors = await bundle(code, 'jsx');
  if (!errors.some((e) => e.rule === 'syntax')) return { language: 'jsx', errors };
  let stripped;
  const refused = await attempt(async () => (stripped = await stripTypes(code)));
  if (!stripped) return { language: 'tsx', errors: refused };
  const later = await bundle(stripped.code, 'tsx');
  const map = new SourceMap(JSON.parse(stripped.map));
  return { language: 'tsx', errors: later.map((e) => ({ ...e, ...originalLine(map, e) })) };
}
