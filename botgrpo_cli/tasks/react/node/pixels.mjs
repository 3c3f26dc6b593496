// What is really visible, decided by the picture: pure functions of pixels and boxes.
import { load } from './toolchain.mjs';

const { PNG } = load('pngjs');

const STEPS = 32; // a colour channel, quantised: five bits
const SAMPLES = 8192; // pixels of a box that are looked at
const BLANK_SHARE = 0.9995;

/** {width, height, bins: Uint16Array of the quantised colour of each pixel} of a PNG. */
export function decode(png) {
  const { width, height, data } = PNG.sync.read(png);
  const bins = new Uint16Array(width * height);
  for (let i = 0, j = 0; i < bins.length; i++, j += 4) bins[i] = ((data[j] >> 3) << 10) | ((data[j + 1] >> 3) << 5) | (data[j + 2] >> 3);
  return { width, height, bins };
}

/** How often each colour occurs, how many do, and how often the most frequent one does. */
function histogram(bins) {
  const counts = new Uint32Array(STEPS ** 3);
  for (let i = 0; i < bins.length; i++) counts[bins[i]]++; // plain loops: the callbacks of reduce() cost 20 ms
  let colours = 0;
  let most = 0;
  for (let bin = 0; bin < counts.length; bin++) {
    if (counts[bin] > 0) colours++;
    if (counts[bin] > most) most = counts[bin];
  }
  return { counts, colours, most };
}

const colourOf = (bin) => [bin >> 10, (bin >> 5) & 31, bin & 31].map((step) => (step << 3) | (step >> 2));

function luminance(colour) {
  const [red, green, blue] = colour.map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Contrast ratio of two colours, 1..21 (WCAG 2.2, section "contrast ratio"). */
export function contrast(first, second) {
  const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Counts of the quantised colours in a box, which is widened by `margin` pixels, and how many pixels were counted. */
function colours({ width, height, bins }, [left, top, wide, high], margin = 0) {
  const x0 = Math.max(0, Math.floor(left) - margin);
  const y0 = Math.max(0, Math.floor(top) - margin);
  const x1 = Math.min(width, Math.ceil(left + wide) + margin);
  const y1 = Math.min(height, Math.ceil(top + high) + margin);
  const step = Math.max(1, Math.ceil(Math.sqrt(((x1 - x0) * (y1 - y0)) / SAMPLES)));
  const counts = new Map();
  let total = 0;
  for (let y = y0; y < y1; y += step) {
    for (let x = x0; x < x1; x += step, total++) {
      const bin = bins[y * width + x];
      counts.set(bin, (counts.get(bin) ?? 0) + 1);
    }
  }
  return { counts, total };
}

function mostFrequent(counts) {
  let best = 0;
  let most = 0;
  for (const [bin, count] of counts) if (count > most) [best, most] = [bin, count];
  return { colour: colourOf(best), bin: best, count: most };
}

/** Is something drawn in the box or around its edge that is not of one colour? */
function differs(picture, box) {
  const { counts, total } = colours(picture, box, 3);
  return total - mostFrequent(counts).count >= Math.max(4, total * 0.002);
}

const MINIMUM = 1.25; // contrast under which nobody reads a text

/** Contrast of a text with what lies behind it; 0 when it cannot be seen. */
function readable(picture, { boxes, colour, alpha, solid }) {
  let best = 0;
  for (const box of boxes) {
    const { counts } = colours(picture, box);
    const back = mostFrequent(counts).colour;
    let strongest = 1;
    for (const bin of counts.keys()) strongest = Math.max(strongest, contrast(colourOf(bin), back));
    if (strongest < MINIMUM) continue;
    // Thin letters never reach their full colour on the screen, so the colour is taken from the style where it holds.
    const mixed = colour.map((channel, i) => channel * alpha + back[i] * (1 - alpha));
    const stated = solid ? contrast(mixed, back) : strongest;
    if (stated >= MINIMUM) best = Math.max(best, stated);
  }
  return best;
}

/** Share of the picture that is not of the colour most frequent along its edge: the page's background. */
function filledShare({ width, height, bins }, counts) {
  const edge = new Map();
  const add = (bin) => edge.set(bin, (edge.get(bin) ?? 0) + 1);
  for (let x = 0; x < width; x++) [x, (height - 1) * width + x].forEach((i) => add(bins[i]));
  for (let y = 0; y < height; y++) [y * width, y * width + width - 1].forEach((i) => add(bins[i]));
  return 1 - counts[mostFrequent(edge).bin] / bins.length;
}

/** The probe of render.py from the picture and from what probe.mjs found. */
export function measure(picture, facts) {
  const { counts, colours: distinct, most } = histogram(picture.bins);
  const texts = facts.texts.map((text) => ({ text: text.text, contrast: readable(picture, text) })).filter((t) => t.contrast > 0);
  const controls = facts.controls.filter(({ box }) => differs(picture, box));
  const letters = (list) => list.reduce((sum, { text }) => sum + text.length, 0);
  return {
    text: texts.map(({ text }) => text).join(' ').slice(0, 5000),
    controls: controls.length,
    live_controls: controls.filter(({ live }) => live).length,
    images: facts.media.filter((box) => differs(picture, box)).length,
    filled: filledShare(picture, counts),
    colours: distinct,
    dominant: most / picture.bins.length,
    contrast: texts.length ? letters(texts.filter((t) => t.contrast >= 4.5)) / letters(texts) : 0,
    aligned: facts.aligned,
    elements: facts.elements,
    overflow: facts.overflow,
  };
}

/** Why the page counts as blank, a sentence; '' when it does not. */
export function blank({ colours, dominant, text, images, controls }) {
  if (colours <= 2) return `The page shows ${colours === 1 ? 'one colour' : 'two colours'} and nothing else.`;
  if (dominant > BLANK_SHARE) return `One colour fills ${(100 * dominant).toFixed(2)} % of the page.`;
  return text || images || controls ? '' : 'The page shows no readable text, no picture and no control.';
}
