// What the page tells the test: every query, every panel, everything that went wrong.

export interface QueryReport {
  panel: string;
  expr: string;
  series: number;
  points: number;
  error?: string;
}

export interface VariableReport {
  query: string;
  values: number;
}

export interface PanelReport {
  id: number;
  title: string;
  state: string;
  error?: string;
  rows: number;
  text: string;
  /** Where the panel ends on the page, in pixels. */
  bottom: number;
}

export interface Report {
  queries: QueryReport[];
  variables: VariableReport[];
  panels: PanelReport[];
  errors: string[];
}

export const queries: QueryReport[] = [];
export const variables: VariableReport[] = [];
export const errors: string[] = [];

/** Collect what nobody catches. */
export function watchErrors() {
  window.addEventListener('error', (event) => errors.push(event.message));
  window.addEventListener('unhandledrejection', (event) => errors.push(String(event.reason?.stack ?? event.reason)));
}
