// What a component may import: four React modules, and local styles and images, which are stubbed.
import { load } from './toolchain.mjs';

export const VENDOR = ['react', 'react-dom', 'react-dom/client', 'react/jsx-runtime'];

// Types that TypeScript code imports by name from 'react'. They vanish when types are stripped by a type-aware build;
// the build here keeps every import, so that unknown packages are seen, and therefore needs these names to exist.
const TYPE_NAMES = (
  'FC FunctionComponent ComponentType ComponentProps ReactNode ReactElement ElementType JSX PropsWithChildren Dispatch ' +
  'SetStateAction Ref RefObject MutableRefObject Reducer Context CSSProperties SyntheticEvent ChangeEvent FormEvent ' +
  'MouseEvent KeyboardEvent FocusEvent DragEvent TouchEvent PointerEvent ChangeEventHandler FormEventHandler ' +
  'MouseEventHandler KeyboardEventHandler EventHandler HTMLAttributes ButtonHTMLAttributes InputHTMLAttributes'
).split(' ');

/** Source of an ES module with explicit export names, so that importing a name that does not exist is an error. */
function moduleSource(name, typescript) {
  const names = Object.keys(load(name)).filter((key) => !key.startsWith('__'));
  const lines = [`const m = globalThis.__vendor[${JSON.stringify(name)}];`, `export const { ${names.join(', ')} } = m;`];
  if (name !== 'react/jsx-runtime') lines.push('export default m;');
  if (name === 'react' && typescript) lines.push(...TYPE_NAMES.map((type) => `export const ${type} = undefined;`));
  return lines.join('\n');
}

const SOURCES = {
  jsx: new Map(VENDOR.map((name) => [name, moduleSource(name, false)])),
  tsx: new Map(VENDOR.map((name) => [name, moduleSource(name, true)])),
};

const LOCAL = /^\.{0,2}\//;
const STYLE = /\.(css|scss|sass|less)$/;
const IMAGE = /\.(svg|png|jpe?g|gif|webp|avif|ico)$/;

function refusal(path, kind) {
  if (kind !== 'import-statement') return `'${path}' is loaded with ${kind.replace('-', ' ')}; only import statements are allowed`;
  if (LOCAL.test(path)) return `'${path}' does not exist: the component must be one file`;
  return `Package '${path}' is not available; import only from ${VENDOR.slice(0, 3).join(', ')}`;
}

/** The esbuild plugin that answers every import itself: nothing is ever read from disk. `language` is jsx or tsx. */
export function importsPlugin(language) {
  return {
    name: 'imports',
    setup(build) {
      build.onResolve({ filter: /.*/ }, ({ path, kind }) => {
        if (kind === 'import-statement') {
          if (SOURCES[language].has(path)) return { path, namespace: 'vendor' };
          if (LOCAL.test(path) && (STYLE.test(path) || IMAGE.test(path))) return { path, namespace: 'asset' };
        }
        return { errors: [{ text: refusal(path, kind) }] };
      });
      build.onLoad({ filter: /.*/, namespace: 'vendor' }, ({ path }) => ({ contents: SOURCES[language].get(path), loader: 'js' }));
      build.onLoad({ filter: /.*/, namespace: 'asset' }, ({ path }) => ({
        contents: STYLE.test(path) ? 'export default {};' : 'export default "data:,";',
        loader: 'js',
      }));
    },
  };
}
