// The dashboard's annotations: asked once, drawn by every graph.
import { PrometheusDataSource } from './prometheus';

export interface Mark {
  from: number;
  to: number;
  colour: string;
}

interface Annotation {
  enable: boolean;
  expr: string;
  iconColor: string;
  useValueForTime?: boolean;
}

const STEP_MS = 1000;

export async function findMarks(
  source: PrometheusDataSource,
  annotations: Annotation[],
  interpolate: (text: string) => string,
  from: number,
  to: number
): Promise<Mark[]> {
  const wanted = annotations.filter(({ enable, expr }) => enable && expr);
  const found = await Promise.all(
    wanted.map(async ({ expr, iconColor, useValueForTime }) => {
      const series = await source.overRange(interpolate(expr), from, to, STEP_MS);
      return series.flatMap(({ values }) => {
        const marks = useValueForTime ? moments(values) : regions(values);
        return marks.map((mark) => ({ ...mark, colour: iconColor }));
      });
    })
  );
  return found.flat().filter((mark) => mark.to >= from && mark.from <= to);
}

/** The values are times in milliseconds: one mark for each that occurs. */
function moments(values: Array<[number, string]>) {
  return [...new Set(values.map(([, value]) => Number(value)))].map((time) => ({ from: time, to: time }));
}

/** Samples without a gap are one region. */
function regions(values: Array<[number, string]>) {
  const found: Array<{ from: number; to: number }> = [];
  for (const [seconds] of values) {
    const time = seconds * 1000;
    const last = found.at(-1);
    if (last && time - last.to <= STEP_MS) {
      last.to = time;
    } else {
      found.push({ from: time, to: time });
    }
  }
  return found;
}
