// Tailwind's style sheet for a component, only when it uses utilities: the reset in it would strip plain components.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { load } from './toolchain.mjs';

const { compile } = load('tailwindcss');
const FOLDER = dirname(load.resolve('tailwindcss/package.json'));
const FILES = new Map(['index', 'theme', 'preflight', 'utilities'].map((name) => [name, readFileSync(join(FOLDER, `${name}.css`), 'utf8')]));

async function loadStylesheet(id) {
  const name = id === 'tailwindcss' ? 'index' : id.replace(/^(tailwindcss|\.)\//, '').replace(/\.css$/, '');
  if (!FILES.has(name)) throw new Error(`Tailwind asks for a style sheet that is not known: ${id}`);
  return { path: name, base: '/', content: FILES.get(name) };
}

const MOST = 2000; // candidates; a long page of good code has a few hundred
const LITERAL = /"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g;
const WORD = /^[-!a-z@*[][^\s"'`;{}]*$/i;
const COMPOUND = /[-:]/;

/** The words of every string in the code, as lists; `classes` says whether the string follows a `className`. */
function literals(code) {
  const found = [];
  for (const match of code.matchAll(LITERAL)) {
    const text = (match[1] ?? match[2] ?? match[3]).replace(/\$\{[^}]*\}/g, ' ');
    const words = text.split(/\s+/).filter(Boolean);
    const before = code.slice(Math.max(0, match.index - 200), match.index);
    // A template or a condition inside className={…} still has `className=` and no end of an attribute before it.
    const classes = /\bclass(?:Name)?\s*=\s*(?:\{[^<>]*)?$/.test(before);
    if (words.length) found.push({ words, classes });
  }
  return found;
}

/** Names of the classes that a style sheet of Tailwind has rules for. */
function classesIn(css) {
  const names = new Set();
  for (const [, name] of css.matchAll(/\.((?:\\[0-9a-f]{1,6} |\\.|[\w-]|[^\x00-\x7f])+)/gi)) {
    names.add(name.replace(/\\(?:([0-9a-f]{1,6}) |(.))/gi, (_, hex, plain) => (hex ? String.fromCodePoint(parseInt(hex, 16)) : plain)));
  }
  return names;
}

/**
 * CSS for the code, or '' when it uses no utilities. It uses them when a `className` holds a compound one (`p-4`,
 * `hover:underline`), or some string has two of those and nothing else: names like `card` or `flex` are anybody's.
 */
export async function tailwindFor(code) {
  const strings = literals(code);
  const words = [...new Set(strings.flatMap((s) => s.words.filter((word) => word.length < 200 && WORD.test(word))))].slice(0, MOST);
  if (!words.some((word) => COMPOUND.test(word))) return '';
  // A compiler remembers every candidate it has seen, so each sample gets its own.
  const css = (await compile('@import "tailwindcss";', { loadStylesheet })).build(words);
  const known = classesIn(css.slice(css.lastIndexOf('@layer utilities')));
  const used = strings.some(({ words, classes }) => {
    const compounds = words.filter((word) => COMPOUND.test(word) && known.has(word));
    return classes ? compounds.length > 0 : compounds.length > 1 && words.every((word) => known.has(word));
  });
  return used ? css : '';
}
