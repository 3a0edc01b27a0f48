// What Grafana's application sets up before its libraries can be used.
import {
  booleanOverrideProcessor,
  createTheme,
  dataLinksOverrideProcessor,
  type DataTransformerInfo,
  type DataSourceInstanceSettings,
  displayNameOverrideProcessor,
  EventBusSrv,
  type FieldConfigPropertyItem,
  type GrafanaTheme2,
  identityOverrideProcessor,
  LoadingState,
  numberOverrideProcessor,
  type ScopedVars,
  standardEditorsRegistry,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import {
  config,
  type DataSourceSrv,
  locationService,
  setAppEvents,
  setBackendSrv,
  setDataSourceSrv,
  setEchoSrv,
  setLocationSrv,
  setPluginImportUtils,
  setPluginLinksHook,
  setRunRequest,
  setTemplateSrv,
  type TemplateSrv,
} from '@grafana/runtime';
import { sceneGraph, type SceneObject } from '@grafana/scenes';
import { from, map } from 'rxjs';
import { PrometheusDataSource } from './prometheus';

/** Set everything up; return the data source that the dashboards will ask. */
export async function setUp(theme: GrafanaTheme2): Promise<PrometheusDataSource> {
  Object.assign(config, { theme2: theme, bootData: window.grafanaBootData, buildInfo: { version: '13.2.3' } });
  await initPluginTranslations('grafana-scenes');
  const source = setUpDataSource();
  setUpRequests();
  setUpRegistries();
  setAppEvents(new EventBusSrv());
  setLocationSrv(locationService);
  setEchoSrv({ flush() {}, addBackend() {}, addEvent() {}, onInteraction: () => () => undefined });
  setBackendSrv({ get: async () => ({}) } as unknown as Parameters<typeof setBackendSrv>[0]);
  setPluginLinksHook(() => ({ links: [], isLoading: false }));
  setPluginImportUtils({
    importPanelPlugin: async (id) => {
      throw new Error(`panel type ${id} is not drawn here`);
    },
    getPanelPluginFromCache: () => undefined,
  });
  return source;
}

export const themeOf = (mode: string | null) => createTheme({ colors: { mode: mode === 'light' ? 'light' : 'dark' } });

function setUpDataSource(): PrometheusDataSource {
  const settings = {
    id: 1,
    uid: 'prometheus',
    name: 'Prometheus',
    type: 'prometheus',
    url: '/prometheus',
    access: 'proxy',
    readOnly: true,
    isDefault: true,
    jsonData: {},
    meta: { id: 'prometheus', name: 'Prometheus', type: 'datasource', info: { logos: { small: '', large: '' } } },
  } as unknown as DataSourceInstanceSettings;
  config.datasources = { [settings.name]: settings };
  config.defaultDatasource = settings.name;
  const source = new PrometheusDataSource(settings);
  setDataSourceSrv({
    get: async () => source,
    getList: (filters?: { pluginId?: string | string[] }) => (!filters?.pluginId || filters.pluginId === settings.type ? [settings] : []),
    getInstanceSettings: () => settings,
    reload() {},
  } as unknown as DataSourceSrv);
  return source;
}

type Format = Parameters<typeof sceneGraph.interpolate>[3];

function setUpRequests() {
  setRunRequest((source, request) =>
    from(source.query(request)).pipe(
      map((answer) => ({
        state: answer.state ?? LoadingState.Done,
        series: answer.data,
        errors: answer.errors?.length ? answer.errors : undefined,
        timeRange: request.range,
        structureRev: 1,
        request,
      }))
    )
  );
  setTemplateSrv({
    getVariables: () => [],
    containsTemplate: (text?: string) => Boolean(text?.includes('$')),
    updateTimeRange() {},
    replace: (text = '', scope?: ScopedVars, format?: Format) => {
      const scene = scope?.__sceneObject?.value.valueOf() as SceneObject | undefined;
      return scene ? sceneGraph.interpolate(scene, text, scope, format) : text;
    },
  } as TemplateSrv);
}

function setUpRegistries() {
  standardEditorsRegistry.setInit(() => []);
  // Some stand in the table twice, under two names.
  standardTransformersRegistry.setInit(() =>
    [...new Set<DataTransformerInfo>(Object.values(standardTransformers))].map((transformation) => ({
      id: transformation.id,
      name: transformation.name,
      transformation: async () => transformation,
      editor: () => null,
      imageDark: '',
      imageLight: '',
    }))
  );
  type Process = FieldConfigPropertyItem['process'];
  const processes: Record<string, Process> = {
    unit: unitOverrideProcessor,
    min: numberOverrideProcessor,
    max: numberOverrideProcessor,
    fieldMinMax: booleanOverrideProcessor,
    decimals: numberOverrideProcessor,
    displayName: displayNameOverrideProcessor,
    noValue: stringOverrideProcessor,
    links: dataLinksOverrideProcessor as Process,
    actions: identityOverrideProcessor,
    color: identityOverrideProcessor,
    thresholds: thresholdsOverrideProcessor as Process,
    mappings: valueMappingsOverrideProcessor as Process,
    filterable: booleanOverrideProcessor,
  };
  standardFieldConfigEditorRegistry.setInit(() =>
    Object.entries(processes).map(([id, process]) => ({
      id,
      path: id,
      name: id,
      process,
      shouldApply: () => true,
      editor: () => null,
      override: () => null,
      settings: {},
      defaultValue: id === 'mappings' ? [] : undefined,
    })) as unknown as FieldConfigPropertyItem[]
  );
}
