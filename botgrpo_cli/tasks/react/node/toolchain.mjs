// Loads the pinned packages from the folder named on the command line (the one `npm ci` filled), because this file
// itself stays in the Python package, where there is no node_modules.
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

export const load = createRequire(join(resolve(process.argv[2]), 'package.json'));

/** A finding of the compiler or the linter; `line` counts from 1 in the checked code, null when no line is to blame. */
export function finding(line, rule, message, severity = 'error') {
  return { line: line ?? null, rule, message: String(message).slice(0, 300), severity };
}

/** Drops repeats of (line, rule, message), sorts by line and keeps the first `limit`. */
export function tidy(findings, limit = 50) {
  const unique = new Map(findings.map((f) => [`${f.line}|${f.rule}|${f.message}`, f]));
  return [...unique.values()].sort((a, b) => (a.line ?? Infinity) - (b.line ?? Infinity)).slice(0, limit);
}
