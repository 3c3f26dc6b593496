// ESLint in process, plus the facts about a component that only the syntax tree can tell.
import { dirname, join } from 'node:path';
import { finding, load, tidy } from './toolchain.mjs';

const { Linter } = load('eslint');
const { version: REACT_VERSION } = load('react/package.json');
const react = load('eslint-plugin-react');
const hooks = load('eslint-plugin-react-hooks');
const a11y = load('eslint-plugin-jsx-a11y');
const globals = load('globals');
// Not public, and worth it: given a plain array, `verify` validates all its rules anew for every file (3 ms of 20).
// ESLint is pinned to one version, and the self-test at boot would see a change.
const { FlatConfigArray } = load(join(dirname(load.resolve('eslint')), 'config', 'flat-config-array.js'));

/** What `facts` saw in the last file; null when it never reached the end of one. */
let seen = null;

// Can this expression be a component? Only what certainly can't is refused: a number, a string, an element, a name
// that nothing defines. What would need running the code (calls, members, conditions) gets the benefit of the doubt.
function mayBeComponent(node, scope, depth = 0) {
  if (!node || depth > 20) return false;
  switch (node.type) {
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
    case 'ClassDeclaration':
    case 'ClassExpression':
    case 'CallExpression':
    case 'MemberExpression':
    case 'ConditionalExpression':
    case 'LogicalExpression':
      return true;
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
      return mayBeComponent(node.expression, scope, depth + 1);
    case 'Identifier': {
      const definition = scope.set.get(node.name)?.defs[0];
      if (!definition) return false;
      if (definition.type === 'Variable') return definition.node.id.type !== 'Identifier' || mayBeComponent(definition.node.init, scope, depth + 1);
      return definition.type === 'FunctionName' || definition.type === 'ClassName';
    }
    default:
      return false;
  }
}

/** The node that the file exports as its default: {node, line}, or null. */
function defaultExport(program) {
  for (const statement of program.body) {
    if (statement.type === 'ExportDefaultDeclaration') return { node: statement.declaration, line: statement.loc.start.line };
    if (statement.type !== 'ExportNamedDeclaration') continue;
    for (const specifier of statement.specifiers) {
      if ((specifier.exported.name ?? specifier.exported.value) !== 'default') continue;
      return { node: statement.source ? null : specifier.local, line: specifier.loc.start.line };
    }
  }
  return null;
}

const calleeName = ({ callee }) => (callee.type === 'MemberExpression' ? callee.property.name : callee.name);

// A rule that reports nothing: it rides on ESLint's own walk, so the code is parsed and walked once.
const facts = {
  meta: { type: 'problem', schema: [] },
  create(context) {
    const found = { markup: false, mounts: false, refused: [] };
    return {
      'JSXElement, JSXFragment'() {
        found.markup = true;
      },
      ImportExpression(node) {
        found.refused.push(finding(node.loc.start.line, 'import', 'Dynamic import is not allowed; only import statements are'));
      },
      CallExpression(node) {
        const name = calleeName(node);
        if (name === 'createElement') found.markup = true;
        if (name === 'createRoot' || name === 'hydrateRoot') found.mounts = true;
        if (name === 'require' && node.callee.type === 'Identifier') {
          found.refused.push(finding(node.loc.start.line, 'import', "'require' is not allowed; only import statements are"));
        }
      },
      'Program:exit'(program) {
        const scope = context.sourceCode.scopeManager.globalScope.childScopes[0];
        const exported = defaultExport(program);
        const app = { type: 'Identifier', name: 'App' };
        const component = exported ? mayBeComponent(exported.node, scope) : found.mounts || mayBeComponent(app, scope);
        seen = { ...found, exportLine: exported?.line ?? null, component };
      },
    };
  },
};

/** Every core rule that ESLint itself recommends, as errors. */
function recommended() {
  const rules = load('eslint/use-at-your-own-risk').builtinRules;
  return Object.fromEntries([...rules].filter(([, rule]) => rule.meta.docs.recommended).map(([name]) => [name, 'error']));
}

const asWarnings = (rules) =>
  Object.fromEntries(Object.entries(rules).map(([name, level]) => [name, Array.isArray(level) ? ['warn', ...level.slice(1)] : level === 'off' || level === 0 ? 'off' : 'warn']));

const RULES = {
  ...recommended(),
  ...react.configs.flat.recommended.rules,
  ...react.configs.flat['jsx-runtime'].rules,
  ...asWarnings(a11y.flatConfigs.recommended.rules),
  'no-unused-vars': ['warn', { caughtErrors: 'none' }],
  'no-empty': 'warn',
  'react/jsx-no-undef': 'off', // no-undef reports the same names
  'react/prop-types': 'off', // a one-file answer has no callers to protect
  'react/display-name': 'off',
  'react/no-unescaped-entities': 'warn',
  // For class components only, which hardly anybody writes any more; a sixth of the time of all rules.
  'react/require-render-return': 'off',
  'react/no-direct-mutation-state': 'off',
  'react-hooks/rules-of-hooks': 'error',
  'react-hooks/exhaustive-deps': 'warn',
};

function config(language, rules) {
  const parser = language === 'tsx' ? { parser: load('@typescript-eslint/parser') } : {};
  const configs = [
    {
      files: [`**/*.${language}`],
      plugins: { react, 'react-hooks': hooks, 'jsx-a11y': a11y, botgrpo: { rules: { facts } } },
      linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: 'off' },
      languageOptions: {
        ...parser,
        ecmaVersion: 'latest',
        sourceType: 'module',
        parserOptions: { ecmaFeatures: { jsx: true } },
        globals: globals.browser,
      },
      settings: { react: { version: REACT_VERSION } },
      rules: { ...rules, 'botgrpo/facts': 'error' },
    },
  ];
  return new FlatConfigArray(configs, { basePath: '/' }).normalizeSync();
}

const linter = new Linter({ configType: 'flat' });
const CONFIGS = {};

function verify(code, language, rules) {
  const key = `${language} ${rules === RULES}`;
  CONFIGS[key] ??= config(language, rules); // the TypeScript parser is slow to load: only when asked for
  seen = null;
  return linter.verify(code, CONFIGS[key], { filename: `/component.${language}` });
}

/**
 * Lints code that compiled in `language` (jsx or tsx).
 * `parsed` is false when ESLint's parser refuses the code; `facts` is null when the tree could not be walked.
 * `infrastructure` is a sentence when ESLint did not lint at all: the caller must stop, for silence is no praise.
 */
export function lint(code, language) {
  let messages;
  try {
    messages = verify(code, language, RULES);
  } catch (error) {
    return afterCrash(code, language, error);
  }
  const fatal = messages.find((m) => m.fatal);
  if (fatal) return { parsed: false, facts: null, findings: [finding(fatal.line, 'syntax', fatal.message)] };
  if (!seen) return { infrastructure: `ESLint linted nothing: ${messages[0]?.message ?? 'no rule was run'}` };
  const findings = messages.map((m) => finding(m.line, m.ruleId ?? 'eslint', m.message, m.severity === 2 ? 'error' : 'warning'));
  return { parsed: true, facts: seen, findings: tidy(findings) };
}

// A rule that throws is a fault of this file (nested too deeply, or odd enough to trip a plugin) as long as ESLint
// still finds what it should in the known file.
function afterCrash(code, language, error) {
  const broken = selfTest();
  if (broken) return { infrastructure: `${broken} ESLint had thrown: ${error.message.split('\n')[0]}` };
  const findings = [finding(null, 'crash', `ESLint could not check this file: ${error.message.split('\n')[0]}`)];
  try {
    verify(code, language, {});
  } catch {
    seen = null;
  }
  return { parsed: seen !== null, facts: seen, findings };
}

const KNOWN = [
  "import { useState } from 'react';",
  'export default function App({ on, items }) {',
  '  if (on) useState(0);',
  '  return <ul>{items.map((i) => <li>{missing}<img src="a.png" /></li>)}</ul>;',
  '}',
].join('\n');
const EXPECTED = ['react-hooks/rules-of-hooks', 'react/jsx-key', 'no-undef', 'jsx-a11y/alt-text'];

/** Lints a file with one known fault for each plugin; a sentence when any of them goes unreported, else null. */
export function selfTest() {
  let rules;
  try {
    rules = verify(KNOWN, 'jsx', RULES).map((m) => m.ruleId);
  } catch (error) {
    return `ESLint fails on a known file: ${error.message.split('\n')[0]}.`;
  }
  const silent = EXPECTED.filter((rule) => !rules.includes(rule));
  return silent.length ? `ESLint does not report ${silent.join(', ')} in a known file.` : null;
}
