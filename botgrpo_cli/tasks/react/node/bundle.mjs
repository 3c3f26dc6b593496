// From a component to a script for the page: React once, as a production bundle, and each sample against it.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildOptions, stripTypes } from './compile.mjs';
import { load } from './toolchain.mjs';
import { VENDOR } from './vendor.mjs';

const esbuild = load('esbuild');
const PRODUCTION = { 'process.env.NODE_ENV': '"production"' };

// `mounts` counts the roots that are made, so that a file that mounts itself is not mounted a second time.
const VENDOR_ENTRY = `
const modules = { ${VENDOR.map((name) => `${JSON.stringify(name)}: require(${JSON.stringify(name)})`).join(', ')} };
const { createRoot, hydrateRoot } = modules['react-dom/client'];
const counted = (make) => (...words) => { globalThis.__vendor.mounts += 1; return make(...words); };
modules['react-dom/client'] = { createRoot: counted(createRoot), hydrateRoot: counted(hydrateRoot) };
modules.mounts = 0;
Object.defineProperty(globalThis, '__vendor', { value: modules });
`;

/** The production bundle of everything a component may import; built once and kept beside the packages. */
export async function vendorBundle() {
  const toolchain = resolve(process.argv[2]);
  const name = createHash('sha256').update(VENDOR_ENTRY).digest('hex').slice(0, 12);
  const file = join(toolchain, `vendor-${name}.js`);
  if (existsSync(file)) return readFileSync(file, 'utf8');
  const { outputFiles } = await esbuild.build({
    stdin: { contents: VENDOR_ENTRY, resolveDir: toolchain },
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    platform: 'browser',
    define: PRODUCTION,
    logLevel: 'silent',
  });
  const { text } = outputFiles[0];
  try {
    writeFileSync(`${file}.${process.pid}`, text);
    renameSync(`${file}.${process.pid}`, file); // whole or not at all, whoever else is building it
  } catch {
    // A cache that may only be read: built anew the next time, a tenth of a second.
  }
  return text;
}

const SAMPLE = 'botgrpo:sample';

// An App that is not exported is found by name, at the end of its own module.
const APP = '\nexport const __botgrpoApp = typeof App === "undefined" ? undefined : App;\n';

function samplePlugin(code) {
  return {
    name: 'sample',
    setup(build) {
      build.onResolve({ filter: /^botgrpo:sample$/ }, () => ({ path: SAMPLE, namespace: 'sample' }));
      build.onLoad({ filter: /.*/, namespace: 'sample' }, () => ({ contents: code + APP, loader: 'jsx' }));
    },
  };
}

async function bundled(code, language, key) {
  const entry = `import * as sample from ${JSON.stringify(SAMPLE)};\nglobalThis[${JSON.stringify(key)}].mount(sample);`;
  const options = buildOptions(entry, language);
  const { outputFiles } = await esbuild.build({
    ...options,
    plugins: [samplePlugin(code), ...options.plugins],
    define: { ...PRODUCTION, 'import.meta.env': '{}' },
  });
  return outputFiles[0].text;
}

/**
 * {body} of an async function that makes the component and mounts it; or {problem}, a sentence, when the code does not
 * build. `key` is the name under which the page keeps what prelude.mjs put there.
 */
export async function bundleSample(code, key) {
  try {
    return { body: await bundled(code, 'jsx', key) };
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error; // the esbuild process is gone: the worker must be replaced
    try {
      const stripped = await stripTypes(code);
      return { body: await bundled(stripped.code, 'tsx', key) };
    } catch (second) {
      if (!Array.isArray(second.errors)) throw second;
      return { problem: `It does not compile: ${error.errors[0].text}` };
    }
  }
}
