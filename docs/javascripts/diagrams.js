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

  const own = {
    initialize(given) { settings = given; },
    async render(...about) { return (await (loaded ??= load())).render(...about); },
  };
  globalThis.mermaid = own;
})();
