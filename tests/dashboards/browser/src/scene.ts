// A dashboard as its file has it, as a scene that Grafana's library can draw.
import type { Dashboard, Panel, RowPanel, VariableModel } from '@grafana/schema';
import {
  CustomVariable,
  DataSourceVariable,
  EmbeddedScene,
  QueryVariable,
  SceneControlsSpacer,
  SceneDataTransformer,
  SceneGridItem,
  SceneGridLayout,
  SceneGridRow,
  SceneQueryRunner,
  SceneTimePicker,
  SceneTimeRange,
  SceneVariable,
  SceneVariableSet,
  VariableValueSelectors,
  VizPanel,
} from '@grafana/scenes';

export interface Drawn {
  scene: EmbeddedScene;
  panels: Array<{ model: Panel; viz: VizPanel }>;
}

/** Choices made by address: `var-NAME`, `from`, `to`. */
export function draw(dashboard: Dashboard, chosen: URLSearchParams): Drawn {
  const panels: Drawn['panels'] = [];
  const item = (model: Panel) => {
    const viz = vizOf(model);
    panels.push({ model, viz });
    const { x, y, w: width, h: height } = model.gridPos!;
    return new SceneGridItem({ x, y, width, height, body: viz });
  };
  const children: Array<SceneGridItem | SceneGridRow> = [];
  for (const model of dashboard.panels ?? []) {
    const row = children.at(-1);
    if (isRow(model)) {
      children.push(new SceneGridRow({ title: model.title, y: model.gridPos!.y, children: model.panels.map(item) }));
    } else if (row instanceof SceneGridRow) {
      row.setState({ children: [...row.state.children, item(model)] });
    } else {
      children.push(item(model));
    }
  }
  const scene = new EmbeddedScene({
    $timeRange: new SceneTimeRange({
      from: chosen.get('from') ?? dashboard.time?.from,
      to: chosen.get('to') ?? dashboard.time?.to,
      timeZone: 'utc',
    }),
    $variables: new SceneVariableSet({
      variables: (dashboard.templating?.list ?? []).map((variable) => variableOf(variable, chosen)),
    }),
    controls: [new VariableValueSelectors({}), new SceneControlsSpacer(), new SceneTimePicker({})],
    body: new SceneGridLayout({ isLazy: false, children }),
  });
  return { scene, panels };
}

type Transformations = SceneDataTransformer['state']['transformations'];

const isRow = (model: Panel | RowPanel): model is RowPanel => model.type === 'row';

function vizOf(model: Panel): VizPanel {
  const queries = new SceneQueryRunner({
    datasource: model.datasource,
    queries: model.targets as SceneQueryRunner['state']['queries'],
    maxDataPoints: model.maxDataPoints,
    minInterval: model.interval,
  });
  const $data = model.transformations?.length
    ? new SceneDataTransformer({ $data: queries, transformations: model.transformations as Transformations })
    : queries;
  return new VizPanel({
    key: `panel-${model.id}`,
    pluginId: model.type,
    title: model.title,
    description: model.description,
    options: model.options,
    fieldConfig: model.fieldConfig as VizPanel['state']['fieldConfig'],
    $data,
  });
}

function variableOf(model: VariableModel, chosen: URLSearchParams): SceneVariable {
  const values = chosen.getAll(`var-${model.name}`);
  const preset = values.length ? (model.multi ? values : values[0]) : model.current?.value;
  const common = {
    name: model.name,
    label: model.label,
    hide: model.hide,
    isMulti: model.multi,
    includeAll: model.includeAll,
    allValue: model.allValue,
    value: preset ?? '',
    text: preset ?? '',
    skipUrlSync: true,
  };
  switch (model.type) {
    case 'datasource':
      return new DataSourceVariable({ ...common, pluginId: String(model.query) });
    case 'query':
      return new QueryVariable({
        ...common,
        query: model.query as string,
        datasource: model.datasource,
        refresh: model.refresh,
        sort: model.sort,
        regex: model.regex ?? '',
      });
    case 'custom':
      return new CustomVariable({ ...common, query: String(model.query) });
    default:
      throw new Error(`a variable of type ${model.type} is not drawn here`);
  }
}
