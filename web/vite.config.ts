import { defineConfig, type Plugin } from "vite";

/** One html with script and styles inside: what the server sends, and what a report is made from. */
function oneFile(name: string): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const html = bundle["index.html"];
      if (html?.type !== "asset") throw new Error("there is no index.html in the bundle");
      let text = String(html.source);
      for (const [file, part] of Object.entries(bundle)) {
        if (part.type === "chunk") {
          const tag = new RegExp(`<script[^>]*src="[^"]*${escaped(file)}"[^>]*></script>`);
          // A closing tag or a comment inside the script would end it too early.
          const code = part.code.replaceAll("</script", "<\\/script").replaceAll("<!--", "\\x3c!--");
          text = text.replace(tag, "").replace("</body>", () => `<script type="module">${code}</script>\n  </body>`);
        } else if (file.endsWith(".css")) {
          const tag = new RegExp(`<link[^>]*href="[^"]*${escaped(file)}"[^>]*>`);
          text = text.replace(tag, () => `<style>${String(part.source)}</style>`);
        } else continue;
        delete bundle[file];
      }
      html.source = text;
      html.fileName = name;
    },
  };
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

export default defineConfig(async ({ command, mode }) => ({
  plugins: [
    oneFile("page.html"),
    command === "serve" && mode !== "test" && (await import("./mock.ts")).mock(), // made-up answers for `npm run dev`
  ],
  worker: { format: "iife" as const },
  build: {
    outDir: "../src/clew/page/static",
    emptyOutDir: false,
    target: "es2022",
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: true,
    chunkSizeWarningLimit: 1000,
  },
  test: {
    pool: "threads" as const,
    css: { include: [/tokens/] }, // others are empty in tests
    // A document costs a second to make: only tests of what is drawn (.tsx) get one.
    projects: [
      { extends: true as const, test: { name: "plain", include: ["src/**/*.test.ts"], environment: "node" } },
      { extends: true as const, test: { name: "drawn", include: ["src/**/*.test.tsx"], environment: "happy-dom" } },
    ],
  },
}));
