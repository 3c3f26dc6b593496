// What is in a page, looked at from an isolated world: its own copies of every built-in, which no sample can touch.
// Whether a thing that should be visible really is, the pixels decide (pixels.mjs); here only boxes are collected.

/** Elements that a person can use. The page's own report counts the same list in the same order. */
export const CONTROLS = 'button, [role="button"], input:not([type="hidden"]), select, textarea, a[href]';

/**
 * Runs in the page. `live`: for each of CONTROLS, whether it does something; `limits`: {width, height, nodes, texts}.
 * Boxes are [left, top, width, height] in pixels, cut at the edges of the viewport.
 */
export async function probe(live, selector, limits) {
  const getter = (type, name) => {
    const { get } = Object.getOwnPropertyDescriptor(type.prototype, name);
    return (node) => get.call(node);
  };
  // Named form fields and images replace properties of `document` and of forms: only the prototypes' own are safe.
  const parentOf = getter(Node, 'parentNode');
  const nameOf = getter(Element, 'localName');
  const body = getter(Document, 'body')(document);
  const contains = (outer, inner) => Node.prototype.contains.call(outer, inner);
  const boxOf = (element) => Element.prototype.getBoundingClientRect.call(element);
  const hit = (x, y) => Document.prototype.elementFromPoint.call(document, x, y);
  const all = (query) => [...Document.prototype.querySelectorAll.call(document, query)];
  const facts = { texts: [], controls: [], media: [], aligned: 0, overflow: 0, elements: 0 };
  if (!body) return facts;

  // Animations that end are shown at their end, those that go on for ever as if they had not begun.
  const animations = Document.prototype.getAnimations.call(document).slice(0, 1000);
  for (const animation of animations) {
    try {
      if (animation.effect.getComputedTiming().endTime === Infinity) animation.cancel();
      else animation.finish();
    } catch {
      // it has no target or no speed: nothing to see
    }
  }
  if (animations.length) {
    const frame = new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    await Promise.race([frame, new Promise((resolve) => setTimeout(resolve, 200))]); // else the picture is the old one
  }

  const canvas = document.createElementNS('http://www.w3.org/1999/xhtml', 'canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', { willReadFrequently: true });
  const colours = new Map();
  /** [red, green, blue 0..255, alpha 0..1] of any CSS colour, oklch() included. */
  function colourOf(text) {
    if (!colours.has(text)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = text;
      pen.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
      colours.set(text, [red, green, blue, alpha / 255]);
    }
    return colours.get(text);
  }

  function clipped(box) {
    const left = Math.max(0, box.left);
    const top = Math.max(0, box.top);
    const width = Math.min(limits.width, box.right) - left;
    const height = Math.min(limits.height, box.bottom) - top;
    return width >= 1 && height >= 1 ? [left, top, width, height] : null;
  }

  /** Is the element what lies on top in the middle of the box? Elements that take no clicks are never hit. */
  function onTop(element, [left, top, width, height], style) {
    if (style.pointerEvents === 'none') return true;
    const found = hit(left + width / 2, top + height / 2);
    return found !== null && (contains(element, found) || nameOf(found) === 'label');
  }

  const indices = new Map(all(selector).map((element, index) => [element, index]));
  const opacities = new Map();
  const styles = new Map();
  const content = new Set(); // boxes that hold text, a control or a picture
  const UNSEEN = new Set(['script', 'style', 'template', 'noscript', 'option', 'title', 'defs']);

  const blockOf = (element) => {
    let found = element;
    while (found !== body && styles.get(found)?.display === 'inline') found = parentOf(found);
    return found;
  };

  function addText(node, element, style) {
    const text = node.data.replace(/\s+/g, ' ').trim();
    if (!text || style.visibility !== 'visible' || parseFloat(style.fontSize) < 5) return;
    content.add(blockOf(element));
    if (facts.texts.length >= limits.texts) return;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].slice(0, 30).map(clipped).filter(Boolean);
    const seen = boxes.filter((box) => box[3] >= 4 && onTop(element, box, style));
    if (seen.length) facts.texts.push({ text: text.slice(0, 5000), boxes: seen, ...ink(element, style) });
  }

  /** `solid` is false where the colour of the text is not the colour that is painted. */
  function ink(element, style) {
    const [red, green, blue, alpha] = colourOf(style.webkitTextFillColor);
    const solid = style.backgroundClip !== 'text' && !(element instanceof SVGElement);
    return { colour: [red, green, blue], alpha: alpha * opacities.get(element), solid };
  }

  function addControl(element, style, box) {
    const alive = live[indices.get(element)] ?? false;
    facts.controls.push({ box, live: alive });
    const tag = nameOf(element);
    let text = '';
    if (tag === 'select') text = element.selectedOptions[0]?.text;
    else if (tag === 'textarea') text = element.value || element.placeholder;
    else if (tag === 'input' && !/^(?:checkbox|radio|range|color|file|image|password)$/.test(element.type)) text = element.value || element.placeholder;
    text = (text ?? '').replace(/\s+/g, ' ').trim();
    if (!text || facts.texts.length >= limits.texts) return;
    const shown = element.value || tag === 'select' ? style : getComputedStyle(element, '::placeholder');
    facts.texts.push({ text: text.slice(0, 5000), boxes: [box], ...ink(element, shown) });
  }

  function addElement(element, style) {
    const tag = nameOf(element);
    const media = tag === 'img' || tag === 'canvas' || (tag === 'svg' && !element.ownerSVGElement);
    const control = indices.has(element);
    if (!media && !control) return;
    const whole = boxOf(element);
    if (style.visibility !== 'visible' || whole.width < 4 || whole.height < 4) return;
    content.add(blockOf(element));
    const box = clipped(whole);
    if (!box || !onTop(element, box, style)) return;
    if (media) facts.media.push(box);
    if (control) addControl(element, style, box);
  }

  let visited = 0;
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) => {
    if (node.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
    if (UNSEEN.has(nameOf(node))) return NodeFilter.FILTER_REJECT;
    const style = getComputedStyle(node);
    const opacity = (opacities.get(parentOf(node)) ?? 1) * Number(style.opacity);
    if (style.display === 'none' || opacity < 0.1) return NodeFilter.FILTER_REJECT; // and all that is inside
    opacities.set(node, opacity);
    styles.set(node, style);
    return NodeFilter.FILTER_ACCEPT;
  });
  const opacity = Number(getComputedStyle(body).opacity);
  opacities.set(body, opacity);
  styles.set(body, getComputedStyle(body));
  while (opacity >= 0.1 && visited++ < limits.nodes && walker.nextNode()) {
    const node = walker.currentNode;
    if (node.nodeType === Node.ELEMENT_NODE) addElement(node, styles.get(node));
    else addText(node, parentOf(node), styles.get(parentOf(node)));
  }

  const boxes = [...content].slice(0, 2000).map(boxOf);
  const edges = new Map();
  for (const box of boxes) edges.set(Math.round(box.left), (edges.get(Math.round(box.left)) ?? 0) + 1);
  const near = (left) => (edges.get(left - 1) ?? 0) + (edges.get(left) ?? 0) + (edges.get(left + 1) ?? 0);
  if (boxes.length) {
    facts.aligned = boxes.filter((box) => near(Math.round(box.left)) > 1).length / boxes.length;
    facts.overflow = boxes.filter((box) => box.left < -1 || box.right > limits.width + 1).length / boxes.length;
  }
  const root = all('#root')[0];
  facts.elements = all('body *').length - (root ? 1 : 0);
  return facts;
}
