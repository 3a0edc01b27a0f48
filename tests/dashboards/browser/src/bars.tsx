// Horizontal bars.
import {
  type DisplayValueAlignmentFactors,
  type FieldDisplay,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  type PanelProps,
} from '@grafana/data';
import { BarGauge, useTheme2, VizRepeater, type VizRepeaterRenderValueProps } from '@grafana/ui';
import { Nothing } from './nothing';

type Value = VizRepeaterRenderValueProps<FieldDisplay, DisplayValueAlignmentFactors>;

export function Bars(props: PanelProps) {
  const { data, fieldConfig, height, options, renderCounter, replaceVariables, timeZone, width } = props;
  const theme = useTheme2();
  if (!data.series.some((frame) => frame.length)) {
    return <Nothing {...props} />;
  }
  const getValues = () =>
    getFieldDisplayValues({
      data: data.series,
      fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables,
      theme,
      timeZone,
    });
  const renderValue = ({ alignmentFactors, height, orientation, value, width }: Value) => (
    <BarGauge
      value={value.display}
      field={value.field}
      display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
      alignmentFactors={alignmentFactors}
      orientation={orientation}
      displayMode={options.displayMode}
      namePlacement={options.namePlacement}
      valueDisplayMode={options.valueMode}
      showUnfilled={options.showUnfilled}
      itemSpacing={10}
      lcdCellWidth={12}
      text={options.text}
      width={width}
      height={height}
      theme={theme}
    />
  );
  return (
    <VizRepeater
      getValues={getValues}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={renderValue}
      source={data}
      renderCounter={renderCounter}
      orientation={options.orientation}
      minVizWidth={options.minVizWidth}
      minVizHeight={options.minVizHeight}
      itemSpacing={10}
      width={width}
      height={height}
    />
  );
}
