// Big values.
import { getFieldDisplayValues, type FieldDisplay, type PanelProps } from '@grafana/data';
import { BigValue, BigValueGraphMode, useTheme2, VizRepeater, type VizRepeaterRenderValueProps } from '@grafana/ui';

export function Tile({ data, fieldConfig, height, options, renderCounter, replaceVariables, timeZone, width }: PanelProps) {
  const theme = useTheme2();
  const getValues = () =>
    getFieldDisplayValues({
      data: data.series,
      fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables,
      sparkline: options.graphMode !== BigValueGraphMode.None,
      theme,
      timeZone,
    });
  const renderValue = ({ count, height, value, width }: VizRepeaterRenderValueProps<FieldDisplay>) => (
    <BigValue
      value={value.display}
      count={count}
      sparkline={value.sparkline}
      colorMode={options.colorMode}
      graphMode={options.graphMode}
      justifyMode={options.justifyMode}
      textMode={options.textMode}
      width={width}
      height={height}
      theme={theme}
    />
  );
  return (
    <VizRepeater
      getValues={getValues}
      renderValue={renderValue}
      source={data}
      renderCounter={renderCounter}
      orientation={options.orientation}
      autoGrid
      width={width}
      height={height}
    />
  );
}
