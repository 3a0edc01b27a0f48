// The page: one dashboard over one Prometheus. `window.report` is kept when all is drawn.
import { createRoot } from 'react-dom/client';
import { BrowserRouter } from 'react-router-dom';
import { type GrafanaTheme2, LoadingState, ThemeContext } from '@grafana/data';
import { locationService, LocationServiceProvider } from '@grafana/runtime';
import { sceneGraph } from '@grafana/scenes';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { findMarks, type Mark } from './annotations';
import { Marks } from './graph';
import { registerPlugins } from './plugins';
import { errors, type PanelReport, queries, type Report, variables, watchErrors } from './report';
import { draw, type Drawn } from './scene';
import { setUp, themeOf } from './services';

declare global {
  interface Window {
    grafanaBootData: unknown;
    report: Promise<Report>;
  }
}

const PATIENCE_MS = 30_000;

watchErrors();
window.report = show().then(tell, (error: Error) => {
  errors.push(String(error.stack));
  return { queries, variables, panels: [], errors };
});

async function show(): Promise<Drawn> {
  const chosen = new URLSearchParams(location.search);
  const theme = themeOf(chosen.get('theme'));
  const source = await setUp(theme);
  registerPlugins();
  const dashboard = await (await fetch(`/dashboards/${chosen.get('dashboard')}.json`)).json();
  const drawn = draw(dashboard, chosen);
  const root = createRoot(document.getElementById('root')!);
  const render = (marks: Mark[]) => root.render(<Page title={dashboard.title} drawn={drawn} marks={marks} theme={theme} />);
  render([]);
  await allDone(drawn);
  const { from, to } = sceneGraph.getTimeRange(drawn.scene).state.value;
  const interpolate = (text: string) => sceneGraph.interpolate(drawn.scene, text);
  render(await findMarks(source, dashboard.annotations?.list ?? [], interpolate, from.valueOf(), to.valueOf()));
  await document.fonts.ready;
  await frames(5);
  return drawn;
}

interface PageProps {
  title: string;
  drawn: Drawn;
  marks: Mark[];
  theme: GrafanaTheme2;
}

function Page({ title, drawn: { scene }, marks, theme }: PageProps) {
  return (
    <ThemeContext.Provider value={theme}>
      <LocationServiceProvider service={locationService}>
        <BrowserRouter>
          <GlobalStyles />
          <main style={{ padding: 16, minHeight: '100vh', background: theme.colors.background.canvas }}>
            <h4 style={{ margin: 0 }}>{title}</h4>
            <Marks.Provider value={marks}>
              <scene.Component model={scene} />
            </Marks.Provider>
          </main>
          <PortalContainer />
        </BrowserRouter>
      </LocationServiceProvider>
    </ThemeContext.Provider>
  );
}

type Viz = Drawn['panels'][number]['viz'];

function isDone(viz: Viz): boolean {
  const state = sceneGraph.getData(viz).state.data?.state;
  return Boolean(viz.state._pluginLoadError) || state === LoadingState.Done || state === LoadingState.Error;
}

async function allDone({ panels }: Drawn) {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const waiting = panels.filter(({ viz }) => !isDone(viz));
    if (!waiting.length) {
      return;
    }
    if (performance.now() > end) {
      throw new Error(`not done: ${waiting.map(({ model }) => model.title).join(', ')}`);
    }
    await frames(1);
  }
}

async function frames(count: number) {
  for (let frame = 0; frame < count; frame++) {
    await new Promise(requestAnimationFrame);
  }
}

function tell(drawn: Drawn): Report {
  const panels = drawn.panels.map(({ model, viz }): PanelReport => {
    const { data } = sceneGraph.getData(viz).state;
    const element = document.querySelector(`[data-viz-panel-key="${viz.state.key}"]`);
    return {
      id: model.id!,
      title: model.title ?? '',
      state: String(data?.state),
      error: data?.errors?.[0]?.message ?? viz.state._pluginLoadError,
      rows: data?.series.reduce((sum, frame) => sum + frame.length, 0) ?? 0,
      text: (element as HTMLElement | null)?.innerText ?? '',
      bottom: element?.getBoundingClientRect().bottom ?? 0,
    };
  });
  return { queries, variables, panels, errors };
}
