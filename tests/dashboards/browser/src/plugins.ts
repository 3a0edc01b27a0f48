// The panel types of these dashboards, as Grafana's libraries want them registered.
//
// Grafana's own panels are part of its server and in no library. Graphs, values, bars and tables
// are drawn by the components of @grafana/ui that those panels use as well; the state timeline has
// none, and is drawn here from the same processed fields (texts, colours, units).
import {
  FieldColorModeId,
  FieldConfigEditorBuilder,
  FieldConfigProperty,
  identityOverrideProcessor,
  PanelOptionsEditorBuilder,
  PanelPlugin,
} from '@grafana/data';
import { registerRuntimePanelPlugin } from '@grafana/scenes';
import {
  BarGaugeDisplayMode,
  BarGaugeNamePlacement,
  BarGaugeValueMode,
  BigValueColorMode,
  BigValueGraphMode,
  BigValueJustifyMode,
  BigValueTextMode,
  GraphDrawStyle,
  GraphThresholdsStyleMode,
  LegendDisplayMode,
  LineInterpolation,
  ScaleDistribution,
  SortOrder,
  StackingMode,
  TableCellDisplayMode,
  TableCellHeight,
  TooltipDisplayMode,
  VisibilityMode,
  VizOrientation,
} from '@grafana/schema';
import { Bars } from './bars';
import { Graph } from './graph';
import { Rows } from './rows';
import { StateTimeline } from './state-timeline';
import { Tile } from './tile';

type Defaults = Record<string, unknown>;

const REDUCED: Defaults = {
  'reduceOptions.values': false,
  'reduceOptions.calcs': ['lastNotNull'],
  'reduceOptions.fields': '',
  orientation: VizOrientation.Auto,
};

const LEGEND_AND_TOOLTIP: Defaults = {
  'legend.showLegend': true,
  'legend.displayMode': LegendDisplayMode.List,
  'legend.placement': 'bottom',
  'legend.calcs': [],
  'tooltip.mode': TooltipDisplayMode.Single,
  'tooltip.sort': SortOrder.None,
};

const SHOWN_EVERYWHERE = { legend: false, tooltip: false, viz: false };

/** Register every panel type; one that is not here makes the test fail. */
export function registerPlugins() {
  register('timeseries', Graph, FieldColorModeId.PaletteClassic, LEGEND_AND_TOOLTIP, {
    drawStyle: GraphDrawStyle.Line,
    lineInterpolation: LineInterpolation.Linear,
    lineWidth: 1,
    lineStyle: { fill: 'solid' },
    fillOpacity: 0,
    gradientMode: 'none',
    showPoints: VisibilityMode.Auto,
    pointSize: 5,
    barAlignment: 0,
    barWidthFactor: 0.6,
    spanNulls: false,
    insertNulls: false,
    stacking: { mode: StackingMode.None, group: 'A' },
    thresholdsStyle: { mode: GraphThresholdsStyleMode.Off },
    axisPlacement: 'auto',
    axisColorMode: 'text',
    axisLabel: '',
    axisSoftMin: undefined,
    axisSoftMax: undefined,
    axisBorderShow: false,
    axisCenteredZero: false,
    scaleDistribution: { type: ScaleDistribution.Linear },
    hideFrom: SHOWN_EVERYWHERE,
  });
  register('state-timeline', StateTimeline, FieldColorModeId.Thresholds, LEGEND_AND_TOOLTIP, {
    lineWidth: 0,
    fillOpacity: 70,
    spanNulls: false,
    insertNulls: false,
    hideFrom: SHOWN_EVERYWHERE,
  });
  register('stat', Tile, FieldColorModeId.Thresholds, {
    ...REDUCED,
    textMode: BigValueTextMode.Auto,
    colorMode: BigValueColorMode.Value,
    graphMode: BigValueGraphMode.Area,
    justifyMode: BigValueJustifyMode.Auto,
    wideLayout: true,
  });
  register('bargauge', Bars, FieldColorModeId.Thresholds, {
    ...REDUCED,
    displayMode: BarGaugeDisplayMode.Gradient,
    valueMode: BarGaugeValueMode.Color,
    namePlacement: BarGaugeNamePlacement.Auto,
    showUnfilled: true,
    minVizWidth: 8,
    minVizHeight: 16,
  });
  register('table', Rows, FieldColorModeId.Thresholds, { showHeader: true, cellHeight: TableCellHeight.Sm }, {
    align: 'auto',
    cellOptions: { type: TableCellDisplayMode.Auto },
    inspect: false,
    width: undefined,
    minWidth: undefined,
    filterable: undefined,
    hideFrom: { viz: false },
  });
}

function register(
  id: string,
  component: ConstructorParameters<typeof PanelPlugin>[0],
  colour: FieldColorModeId,
  options: Defaults,
  custom: Defaults = {}
) {
  const plugin = new PanelPlugin(component);
  plugin.setPanelOptions((builder: PanelOptionsEditorBuilder<any>) => {
    for (const [path, defaultValue] of Object.entries(options)) {
      builder.addCustomEditor({ id: path, path, name: path, defaultValue, editor: () => null });
    }
  });
  plugin.useFieldConfig({
    standardOptions: {
      [FieldConfigProperty.Color]: {
        defaultValue: { mode: colour },
        settings: { byValueSupport: true, bySeriesSupport: true, preferThresholdsMode: false },
      },
    },
    useCustomConfig: (builder: FieldConfigEditorBuilder<any>) => {
      for (const [path, defaultValue] of Object.entries(custom)) {
        builder.addCustomEditor({
          id: path,
          path,
          name: path,
          defaultValue,
          editor: () => null,
          override: () => null,
          process: identityOverrideProcessor,
          shouldApply: () => true,
          settings: {},
        });
      }
    },
  });
  registerRuntimePanelPlugin({ pluginId: id, plugin });
}
