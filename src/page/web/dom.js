// Elements made of values. Text only ever becomes text nodes: there is no way to hand in markup.
const namespaces = { svg: 'http://www.w3.org/2000/svg', math: 'http://www.w3.org/1998/Math/MathML' };

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (name === 'style') for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'open' || name === 'hidden')
      node[name] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

export function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(namespaces.svg, tag), props, children);
}

// A tree of {tag, attributes, children} or texts, as math.js writes it.
export function mathml(tree) {
  if (typeof tree === 'string') return document.createTextNode(tree);
  return fill(document.createElementNS(namespaces.math, tree.tag), tree.attributes, tree.children.map(mathml));
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return node;
}
