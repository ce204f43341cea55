/** A result as CSV, JSON and Arrow, and cells as text to copy. */
import { RecordBatchStreamWriter, type Field } from 'apache-arrow';
import { fullText, jsonText } from './cells';
import type { Statement } from './run';

/** A field of CSV: NULL is empty, an empty text is `""`. */
export function csvField(text: string | null): string {
  if (text === null) return '';
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Texts of about a megabyte each, so that no single string holds a large result. */
function* lines(of: Statement, line: (at: number, batch: Statement['batches'][number], fields: Field[]) => string): Generator<string> {
  const fields = of.schema.value?.fields ?? [];
  let part: string[] = [];
  let length = 0;
  for (const batch of of.batches) {
    for (let at = 0; at < batch.numRows; at++) {
      const text = line(at, batch, fields);
      part.push(text);
      length += text.length;
      if (length > 1 << 20) {
        yield part.join('');
        [part, length] = [[], 0];
      }
    }
  }
  yield part.join('');
}

export function csv(of: Statement): BlobPart[] {
  const head = (of.schema.value?.fields ?? []).map((field) => csvField(field.name)).join(',');
  return [`${head}\n`, ...lines(of, (at, batch, fields) => `${fields.map((field, column) => csvField(fullText(batch.data.children[column]!, at, field))).join(',')}\n`)];
}

export function json(of: Statement): BlobPart[] {
  let isFirst = true;
  const rows = lines(of, (at, batch, fields) => {
    const parts = fields.map((field, column) => `${JSON.stringify(field.name)}:${jsonText(batch.data.children[column]!, at, field)}`);
    const text = `${isFirst ? '\n' : ',\n'}{${parts.join(',')}}`;
    isFirst = false;
    return text;
  });
  return ['[', ...rows, '\n]\n'];
}

/** An Arrow stream, as the server sent it. */
export async function arrow(of: Statement): Promise<BlobPart[]> {
  const writer = RecordBatchStreamWriter.writeAll(of.batches);
  return [(await writer.toUint8Array()) as Uint8Array<ArrayBuffer>];
}

export interface Range {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** Cells with tabs between, as spreadsheets read them. */
export function copyText(of: Statement, range: Range, withHead: boolean): string {
  const fields = of.schema.value?.fields ?? [];
  const columns = fields.map((field, at) => ({ field, at })).slice(range.left, range.right + 1);
  const one = range.top === range.bottom && range.left === range.right;
  const put = (text: string | null) => (one ? text ?? '' : (text ?? '').replace(/[\t\r\n]+/g, ' '));
  const out: string[] = [];
  if (withHead) out.push(columns.map(({ field }) => put(field.name)).join('\t'));
  for (let row = range.top; row <= range.bottom; row++) {
    const place = of.locate(row);
    if (!place) break;
    const [batch, at] = place;
    out.push(columns.map(({ field, at: column }) => put(fullText(batch.data.children[column]!, at, field))).join('\t'));
  }
  return out.join('\n');
}
