// The theme asks `mermaid` to draw diagrams, and fetches it from another host if a page has none. This one fetches the
// site's own copy, and only where there is a diagram.
(() => {
  const source = new URL("mermaid.min.js", document.currentScript.src);
  let settings, loaded;

  const load = () => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = source;
    script.onload = () => {
      const real = globalThis.mermaid;
      globalThis.mermaid = own;
      real.initialize(settings);
      done(real);
    };
    script.onerror = () => failed(new Error(`${source} cannot be read`));
    document.head.append(script);
  });

  // On a phone, a wide diagram scrolls: it would shrink until nobody could read it.
  const keepReadable = (whole, width) => `${whole}; min-width: ${Math.min(640, Math.round(width * 0.65))}px`;

  const own = {
    initialize(given) { settings = given; },
    async render(...about) {
      const drawn = await (await (loaded ??= load())).render(...about);
      return { ...drawn, svg: drawn.svg.replace(/max-width: ([\d.]+)px/, keepReadable) };
    },
  };
  globalThis.mermaid = own;
})();
