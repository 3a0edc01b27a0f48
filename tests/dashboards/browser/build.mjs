// Bundles the page into build/.
import { build } from 'esbuild';

await build({
  entryPoints: ['src/main.tsx'],
  outdir: 'build',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'browser',
  conditions: ['browser'],
  jsx: 'automatic',
  logLevel: 'error',
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  // Grafana's own loader of plugins provides this module; here the page does.
  alias: { '@grafana/plugin-compat/datasources': './src/data-sources.ts' },
  loader: { '.svg': 'dataurl', '.png': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl' },
});
