// Values over time, with the dashboard's marks.
import { createContext, useContext, useEffect, useLayoutEffect, useRef } from 'react';
import type uPlot from 'uplot';
import { type DataFrame, type Field, FieldType, type PanelProps } from '@grafana/data';
import { TimeSeries, type UPlotConfigBuilder, useTheme2 } from '@grafana/ui';
import type { Mark } from './annotations';
import { Nothing } from './nothing';

export const Marks = createContext<Mark[]>([]);

export function Graph(props: PanelProps) {
  const { data, options, timeRange, timeZone, width, height } = props;
  const frames = data.series.filter((frame) => frame.length && frame.fields.some(isNumeric)).map(drawable);
  if (!frames.length) {
    return <Nothing {...props} />;
  }
  return (
    <TimeSeries
      frames={frames}
      structureRev={data.structureRev}
      timeRange={timeRange}
      timeZone={timeZone}
      width={width}
      height={height}
      legend={options.legend}
      options={options}
    >
      {(config) => <DrawnMarks config={config} />}
    </TimeSeries>
  );
}

const isNumeric = ({ type }: Field) => type === FieldType.number;

/** NaN and infinity are no points of a graph. */
function drawable(frame: DataFrame): DataFrame {
  const finite = (field: Field) => ({ ...field, values: field.values.map((value) => (Number.isFinite(value) ? value : null)) });
  return { ...frame, fields: frame.fields.map((field) => (isNumeric(field) ? finite(field) : field)) };
}

/** Regions as shades, moments as dashed lines. */
function DrawnMarks({ config }: { config: UPlotConfigBuilder }) {
  const theme = useTheme2();
  const marks = useContext(Marks);
  const shown = useRef<{ marks: Mark[]; plot?: uPlot }>({ marks });
  useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      shown.current.plot = plot;
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const { from, to, colour } of shown.current.marks) {
        const left = plot.valToPos(from, 'x', true);
        const right = plot.valToPos(to, 'x', true);
        ctx.fillStyle = ctx.strokeStyle = theme.visualization.getColorByName(colour);
        ctx.lineWidth = 2;
        ctx.setLineDash([5, 5]);
        ctx.globalAlpha = 0.15;
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
        ctx.globalAlpha = 0.9;
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    });
  }, [config, theme]);
  useEffect(() => {
    shown.current.marks = marks;
    shown.current.plot?.redraw(false);
  }, [marks]);
  return null;
}
