import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // the server may answer below a prefix of a proxy
  build: {
    outDir: "../src/omnigraph/server/page",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy allows no inline scripts
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 600,
  },
});
