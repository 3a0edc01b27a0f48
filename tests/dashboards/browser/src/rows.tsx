// Tables.
import { cacheFieldDisplayNames, type PanelProps } from '@grafana/data';
import { TableNG } from '@grafana/ui/unstable';
import { Nothing } from './nothing';

export function Rows(props: PanelProps) {
  const { data, fieldConfig, height, options, timeRange, width } = props;
  const [frame] = data.series;
  if (!frame?.length) {
    return <Nothing {...props} />;
  }
  cacheFieldDisplayNames(data.series);
  return (
    <TableNG
      data={frame}
      structureRev={data.structureRev}
      fieldConfig={fieldConfig}
      timeRange={timeRange}
      sortBy={options.sortBy}
      cellHeight={options.cellHeight}
      noHeader={!options.showHeader}
      getActions={() => []}
      width={width}
      height={height}
    />
  );
}
