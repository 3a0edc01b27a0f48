// States over time. @grafana/ui has no component for them: texts and colours are those of its
// display processors, bars and axis are drawn here.
import { type DataFrame, dateTimeFormat, type Field, FieldType, getFieldDisplayName, type PanelProps } from '@grafana/data';
import { measureText, useTheme2 } from '@grafana/ui';
import { Nothing } from './nothing';

interface Bar {
  from: number;
  to: number;
  text: string;
  colour: string;
}

interface Row {
  name: string;
  bars: Bar[];
}

const FONT = 12;
const AXIS = 22;

export function StateTimeline(props: PanelProps) {
  const { data, height, options, timeRange, timeZone, width } = props;
  const theme = useTheme2();
  const all = data.series.flatMap((frame) => rowsOf(frame, data.series));
  if (!all.length) {
    return <Nothing {...props} />;
  }
  const rows = all.slice(0, options.perPage || all.length);
  const labels = Math.min(Math.max(...rows.map(({ name }) => textWidth(name))) + 8, width / 2);
  const from = timeRange.from.valueOf();
  const to = timeRange.to.valueOf();
  const x = (time: number) => labels + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (width - labels);
  const step = (height - AXIS) / rows.length;
  const thick = step * (options.rowHeight ?? 0.9);
  return (
    <svg width={width} height={height} fontSize={FONT} fill={theme.colors.text.primary}>
      {rows.map(({ name, bars }, row) => {
        const middle = (row + 0.5) * step;
        return (
          <g key={name}>
            <text x={labels - 8} y={middle} textAnchor="end" dominantBaseline="central">{name}</text>
            {bars.map((bar) => {
              const [left, right] = [x(bar.from), x(bar.to)];
              const fits = textWidth(bar.text) + 8 < right - left;
              return (
                <g key={bar.from}>
                  <rect x={left} y={middle - thick / 2} width={Math.max(right - left, 1)} height={thick} fill={bar.colour} opacity={0.85} />
                  {fits && (
                    <text x={left + 4} y={middle} dominantBaseline="central" fill={theme.colors.getContrastText(bar.colour)}>
                      {bar.text}
                    </text>
                  )}
                </g>
              );
            })}
          </g>
        );
      })}
      {ticks(from, to, (width - labels) / 110).map((time) => (
        <text key={time} x={x(time)} y={height - AXIS / 2} textAnchor="middle" dominantBaseline="central" fill={theme.colors.text.secondary}>
          {dateTimeFormat(time, { timeZone, format: 'HH:mm:ss' })}
        </text>
      ))}
    </svg>
  );
}

/** With the spacing of letters that the page has. */
const textWidth = (text: string) => measureText(text, FONT).width * 1.08;

function rowsOf(frame: DataFrame, all: DataFrame[]): Row[] {
  const times = frame.fields.find(({ type }) => type === FieldType.time);
  if (!times || !frame.length) {
    return [];
  }
  const states = frame.fields.filter(({ type }) => type !== FieldType.time);
  return states.map((field) => ({ name: getFieldDisplayName(field, frame, all), bars: barsOf(times, field) }));
}

/** Samples of one state are one bar; a sample that is missing ends it. */
function barsOf(times: Field, states: Field): Bar[] {
  const interval = times.config.interval ?? Infinity;
  const bars: Bar[] = [];
  states.values.forEach((value, index) => {
    const { text, color: colour = 'gray' } = states.display!(value);
    const time: number = times.values[index];
    const last = bars.at(-1);
    const joins = last !== undefined && time - last.to <= interval;
    if (joins) {
      last.to = time;
    }
    if (!joins || last.text !== text) {
      bars.push({ from: time, to: time, text, colour });
    }
  });
  return bars;
}

/** Round times, at most about as many as asked for. */
function ticks(from: number, to: number, most: number): number[] {
  const lengths = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200].map((seconds) => seconds * 1000);
  const length = lengths.find((one) => (to - from) / one <= most) ?? 14_400_000;
  const first = Math.ceil(from / length) * length;
  return Array.from({ length: Math.floor((to - first) / length) + 1 }, (_, index) => first + index * length).slice(0, -1);
}
