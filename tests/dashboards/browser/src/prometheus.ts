// A Prometheus data source for Grafana's libraries: as much of it as these dashboards use.
import {
  createDataFrame,
  DataFrame,
  DataQueryRequest,
  DataQueryResponse,
  DataSourceApi,
  DataSourceInstanceSettings,
  FieldType,
  LoadingState,
  MetricFindValue,
  rangeUtil,
  ScopedVars,
} from '@grafana/data';
import { getTemplateSrv } from '@grafana/runtime';
import { DataQuery } from '@grafana/schema';
import { from, Observable } from 'rxjs';
import { queries, variables } from './report';

export interface PromQuery extends DataQuery {
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  range?: boolean;
  interval?: string;
  format?: 'time_series' | 'table';
}

interface Series {
  metric: Record<string, string>;
  values: Array<[number, string]>;
}

/** How often the data source believes that Prometheus scrapes; a data source's "scrape interval". */
const SCRAPE_SECONDS = Number(new URLSearchParams(location.search).get('scrape') ?? 1);
const MOST_POINTS = 11_000;

export class PrometheusDataSource extends DataSourceApi<PromQuery> {
  constructor(private readonly settings: DataSourceInstanceSettings) {
    super(settings);
  }

  getRef() {
    return { type: this.settings.type, uid: this.settings.uid };
  }

  async testDatasource() {
    return { status: 'success', message: '' };
  }

  query(request: DataQueryRequest<PromQuery>): Observable<DataQueryResponse> {
    return from(this.answer(request));
  }

  async metricFindQuery(query: string, options?: { scopedVars?: ScopedVars }): Promise<MetricFindValue[]> {
    const expr = interpolate(query, options?.scopedVars ?? {});
    const [, series, label] = /^label_values\((?:(.+),)?\s*(\w+)\)$/.exec(expr) ?? [];
    if (!label) {
      throw new Error(`not understood: ${expr}`);
    }
    const values = await this.ask<string[]>(`label/${label}/values`, series ? { 'match[]': series } : {});
    variables.push({ query: expr, values: values.length });
    return values.map((text) => ({ text, value: text }));
  }

  /** Evaluate an expression at each step of a range, in milliseconds. */
  async overRange(expr: string, fromMs: number, toMs: number, stepMs: number): Promise<Series[]> {
    const step = stepMs / 1000;
    // As Grafana does: at multiples of the step, so that a refresh does not move the points.
    const align = (ms: number) => String(Math.floor(ms / stepMs) * step);
    const found = await this.ask<{ result: Series[] }>('query_range', {
      query: expr, start: align(fromMs), end: align(toMs), step: String(step),
    });
    return found.result;
  }

  private async at(expr: string, ms: number): Promise<Series[]> {
    type Vector = Array<{ metric: Record<string, string>; value: [number, string] }>;
    const found = await this.ask<{ resultType: string; result: Vector }>('query', { query: expr, time: String(ms / 1000) });
    if (found.resultType !== 'vector') {
      throw new Error(`a ${found.resultType} is no answer for a panel: ${expr}`);
    }
    return found.result.map(({ metric, value }) => ({ metric, values: [value] }));
  }

  private async ask<T>(what: string, parameters: Record<string, string>): Promise<T> {
    const response = await fetch(`${this.settings.url}/api/v1/${what}?${new URLSearchParams(parameters)}`);
    const body = await response.json();
    if (body.status !== 'success') {
      throw new Error(`${body.error} (${parameters.query ?? what})`);
    }
    return body.data;
  }

  private async answer(request: DataQueryRequest<PromQuery>): Promise<DataQueryResponse> {
    const shown = request.targets.filter((target) => !target.hide);
    const answers = await Promise.all(shown.map((target) => this.answerOne(target, request, shown.length)));
    const failures = answers.flatMap(({ error }) => (error ? [error] : []));
    return {
      data: answers.flatMap(({ frames }) => frames),
      state: failures.length ? LoadingState.Error : LoadingState.Done,
      errors: failures,
    };
  }

  private async answerOne(target: PromQuery, request: DataQueryRequest<PromQuery>, targets: number) {
    const { scope, stepMs } = macros(target, request);
    const expr = interpolate(target.expr, scope);
    const report = { panel: String(request.panelId ?? ''), expr, series: 0, points: 0, error: undefined as string | undefined };
    queries.push(report);
    try {
      const { from: start, to: end } = request.range;
      const series = target.instant
        ? await this.at(expr, end.valueOf())
        : await this.overRange(expr, start.valueOf(), end.valueOf(), stepMs);
      report.series = series.length;
      report.points = series.flatMap(({ values }) => values).filter(([, value]) => value !== 'NaN').length;
      const frames = target.format === 'table' ? [tableFrame(series, target, targets)] : series.map((one) => seriesFrame(one, target, scope, stepMs));
      return { frames };
    } catch (error) {
      report.error = String(error);
      return { frames: [], error: { message: report.error, refId: target.refId } };
    }
  }
}

/** Grafana's built-in variables, and the time between two points. */
function macros(target: PromQuery, request: DataQueryRequest<PromQuery>) {
  const rangeMs = request.range.to.valueOf() - request.range.from.valueOf();
  const least = target.interval ? rangeUtil.intervalToMs(target.interval) : SCRAPE_SECONDS * 1000;
  const stepMs = Math.max(request.intervalMs, least, Math.ceil(rangeMs / MOST_POINTS / 1000) * 1000);
  // https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/
  const rateMs = Math.max(stepMs + least, 4 * least);
  const values = {
    __interval: `${stepMs}ms`,
    __interval_ms: stepMs,
    __rate_interval: `${rateMs}ms`,
    __range: `${Math.round(rangeMs / 1000)}s`,
    __range_s: Math.round(rangeMs / 1000),
    __range_ms: rangeMs,
  };
  const scope: ScopedVars = { ...request.scopedVars };
  for (const [name, value] of Object.entries(values)) {
    scope[name] = { text: String(value), value: String(value) };
  }
  return { scope, stepMs };
}

function interpolate(text: string, scope: ScopedVars): string {
  return getTemplateSrv().replace(text, scope, forMatcher);
}

/** Several values become a regular expression, in a string of PromQL. */
function forMatcher(value: string | string[], variable: { multi?: boolean; includeAll?: boolean } = {}): string {
  const literal = (one: string) => one.replace(/[\\"]/g, '\\$&');
  const pattern = (one: string) => literal(one.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  if (typeof value === 'string') {
    return variable.multi || variable.includeAll ? pattern(value) : literal(value);
  }
  return value.length === 1 ? pattern(value[0]) : `(${value.map(pattern).join('|')})`;
}

function number(text: string): number {
  return text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text);
}

function seriesFrame({ metric, values }: Series, target: PromQuery, scope: ScopedVars, stepMs: number): DataFrame {
  return createDataFrame({
    refId: target.refId,
    name: legend(metric, target, scope),
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: stepMs }, values: values.map(([time]) => time * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        labels: metric,
        config: { displayNameFromDS: legend(metric, target, scope) },
        values: values.map(([, value]) => number(value)),
      },
    ],
  });
}

function legend(metric: Record<string, string>, target: PromQuery, scope: ScopedVars): string | undefined {
  if (!target.legendFormat || target.legendFormat === '__auto') {
    const { __name__: name = '', ...labels } = metric;
    const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    return pairs.length ? `${name}{${pairs.join(', ')}}` : name || undefined;
  }
  const text = interpolate(target.legendFormat, scope);
  return text.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => metric[label] ?? '');
}

function tableFrame(series: Series[], target: PromQuery, targets: number): DataFrame {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const rows = series.flatMap(({ metric, values }) => values.map(([time, value]) => ({ metric, time, value })));
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: rows.map(({ time }) => time * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: rows.map(({ metric }) => metric[label] ?? ''),
      })),
      {
        name: targets > 1 ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: rows.map(({ value }) => number(value)),
      },
    ],
  });
}
