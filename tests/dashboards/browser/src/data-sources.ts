// What Grafana's loader of plugins gives to its libraries: the data sources there are.
import type { DataSourceRef } from '@grafana/schema';
import { getDataSourceSrv } from '@grafana/runtime';
import type { DataSourceInstanceSettings, ScopedVars } from '@grafana/data';

type Filters = Parameters<ReturnType<typeof getDataSourceSrv>['getList']>[0];

export async function getDataSourceInstance(ref?: DataSourceRef | string | null, scope?: ScopedVars) {
  return getDataSourceSrv().get(ref, scope);
}

export async function getDataSourceInstanceSettings(ref?: DataSourceRef | string | null, scope?: ScopedVars) {
  return getDataSourceSrv().getInstanceSettings(ref, scope);
}

export async function getDataSourceInstanceList(filters?: Filters) {
  return getDataSourceSrv().getList(filters);
}

export async function getDefaultDataSourceInstanceListItem(items: DataSourceInstanceSettings[]) {
  return items.find((item) => item.isDefault);
}
