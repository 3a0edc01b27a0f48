// What a panel without data shows: the word its field configuration has for that.
import type { PanelProps } from '@grafana/data';

export function Nothing({ fieldConfig, width, height }: PanelProps) {
  const style = { width, height, display: 'grid', placeItems: 'center', opacity: 0.65 };
  return <div style={style}>{fieldConfig.defaults.noValue ?? 'No data'}</div>;
}
