/** The frames of an answer: kind (1 byte), length (u32, little-endian), payload. */

export interface Frame {
  kind: string;
  payload: Uint8Array;
}

/** Frames above this size are refused: no frame of a server is that large. */
export const FRAME_BYTES_MAX = 1 << 30;
const HEADER_BYTES = 5;
const KINDS = 'SAPDEN';

/** Pulls bytes only when a frame is asked for, so that a reader that stops stops the server. */
export class FrameReader {
  private chunks: Uint8Array[] = [];
  private buffered = 0;

  constructor(private readonly pull: () => Promise<Uint8Array | null>) {}

  /** The next frame, or null after the last one. Fails if the bytes end within a frame or are none. */
  async next(): Promise<Frame | null> {
    if (!(await this.has(HEADER_BYTES))) {
      if (this.buffered === 0) return null;
      throw new Error('the connection ended in the middle of an answer');
    }
    const header = this.take(HEADER_BYTES);
    const kind = String.fromCharCode(header[0]!);
    const length = new DataView(header.buffer).getUint32(1, true);
    if (!KINDS.includes(kind)) throw new Error(`the answer has a frame of an unknown kind: byte ${header[0]}`);
    if (length > FRAME_BYTES_MAX) throw new Error(`the answer has a frame of ${length} bytes, more than ${FRAME_BYTES_MAX}`);
    if (!(await this.has(length))) throw new Error('the connection ended in the middle of an answer');
    return { kind, payload: this.take(length) };
  }

  private async has(bytes: number): Promise<boolean> {
    while (this.buffered < bytes) {
      const chunk = await this.pull();
      if (chunk === null) return false;
      if (chunk.length === 0) continue;
      this.chunks.push(chunk);
      this.buffered += chunk.length;
    }
    return true;
  }

  /** Copies, so that Arrow's buffers begin at an aligned address and no chunk is kept by a few bytes of it. */
  private take(bytes: number): Uint8Array {
    const taken = new Uint8Array(bytes);
    let filled = 0;
    let whole = 0;
    while (filled < bytes) {
      const chunk = this.chunks[whole]!;
      const part = chunk.subarray(0, bytes - filled);
      taken.set(part, filled);
      filled += part.length;
      if (part.length === chunk.length) whole += 1;
      else this.chunks[whole] = chunk.subarray(part.length);
    }
    this.chunks.splice(0, whole);
    this.buffered -= bytes;
    return taken;
  }
}

/** A frame as the server writes it, for tests and the server that they use. */
export function frame(kind: string, payload: Uint8Array | object): Uint8Array {
  const body = payload instanceof Uint8Array ? payload : new TextEncoder().encode(JSON.stringify(payload));
  const bytes = new Uint8Array(HEADER_BYTES + body.length);
  bytes[0] = kind.charCodeAt(0);
  new DataView(bytes.buffer).setUint32(1, body.length, true);
  bytes.set(body, HEADER_BYTES);
  return bytes;
}

export function json<T>(payload: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(payload)) as T;
}
