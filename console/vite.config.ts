import { defineConfig } from 'vitest/config';

export default defineConfig({
  base: '/',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: ['chrome123', 'firefox125', 'safari17.5'],
    // Nothing as a data: address or inline.
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
  },
  // A busy machine may take its time.
  test: { testTimeout: 120_000 },
  server: { fs: { allow: ['..'] } },
});
