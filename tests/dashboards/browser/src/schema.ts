// What a dashboard's file may hold, by the types of @grafana/schema: the JSON Schema is made from
// this. Options of panels are typed by the panel's own type, which Grafana's Dashboard leaves open.
import type { Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from '@grafana/schema';
import type * as bars from '../node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type * as stat from '../node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as states from '../node_modules/@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';
import type * as table from '../node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as series from '../node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

/** Grafana adds what is left out. */
type Partly<T> = T extends Array<infer Item> ? Array<Partly<Item>> : T extends object ? { [Key in keyof T]?: Partly<T[Key]> } : T;

type Typed<Type extends string, Options, Custom> = Omit<Panel, 'type' | 'targets' | 'options' | 'fieldConfig'> & {
  type: Type;
  targets: Target[];
  options: Partly<Options>;
  fieldConfig: Omit<FieldConfigSource, 'defaults'> & {
    defaults: Omit<FieldConfig, 'custom'> & { custom?: Partly<Custom> };
  };
};

/** A query of Grafana's Prometheus data source. */
export interface Target {
  refId: string;
  datasource: { type: 'prometheus'; uid: string };
  expr: string;
  legendFormat: string;
  instant: boolean;
  range: boolean;
  interval?: string;
  format?: 'time_series' | 'table' | 'heatmap';
}

export type BarGaugePanel = Typed<'bargauge', bars.Options, object>;
export type StatPanel = Typed<'stat', stat.Options, object>;
export type StateTimelinePanel = Typed<'state-timeline', states.Options, states.FieldConfig>;
export type TablePanel = Typed<'table', table.Options, table.FieldConfig>;
export type TimeSeriesPanel = Typed<'timeseries', series.Options, series.FieldConfig>;
export type Row = Omit<RowPanel, 'panels'> & { panels: never[] };

/** An annotation by a query of Prometheus. */
export interface Annotation {
  name: string;
  enable: boolean;
  hide: boolean;
  builtIn: number;
  placement: string;
  iconColor: string;
  datasource: { type: 'prometheus'; uid: string };
  expr: string;
  step: string;
  titleFormat: string;
  textFormat: string;
  useValueForTime?: boolean;
}

/** A dashboard without its panels. */
export type Frame = Omit<Dashboard, 'panels' | 'annotations'> & { annotations?: { list?: Annotation[] } };
