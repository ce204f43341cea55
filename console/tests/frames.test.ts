import { expect, test } from 'vitest';
import { frame, FrameReader, FRAME_BYTES_MAX, json } from '../src/frames';

/** A reader over bytes that arrive in pieces of `size`, and how many pieces were asked for. */
function readerOf(bytes: Uint8Array, size: number) {
  let at = 0;
  const asked = { pieces: 0 };
  const reader = new FrameReader(async () => {
    if (at >= bytes.length) return null;
    asked.pieces += 1;
    const piece = bytes.subarray(at, at + size);
    at += size;
    return piece;
  });
  return { reader, asked };
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

test.each([1, 2, 3, 7, 64, 10_000])('frames survive pieces of %s bytes', async (size) => {
  const body = new Uint8Array(1000).map((_, at) => at % 251);
  const { reader } = readerOf(joined(frame('S', { index: 0 }), frame('A', body), frame('A', new Uint8Array()), frame('D', { rows: 1 })), size);
  expect(json((await reader.next())!.payload)).toEqual({ index: 0 });
  const found = (await reader.next())!;
  expect([found.kind, found.payload]).toEqual(['A', body]);
  expect(found.payload.byteOffset, 'Arrow needs aligned buffers').toBe(0);
  expect((await reader.next())!.payload.length).toBe(0);
  expect((await reader.next())!.kind).toBe('D');
  expect(await reader.next()).toBeNull();
});

test('nothing is read ahead of what is asked for', async () => {
  const frames = Array.from({ length: 50 }, () => frame('A', new Uint8Array(95)));
  const { reader, asked } = readerOf(joined(...frames), 100);
  await reader.next();
  expect(asked.pieces).toBe(1);
  await reader.next();
  expect(asked.pieces).toBe(2);
});

test.each([3, 20])('an answer that ends after %s bytes is an error', async (length) => {
  const { reader } = readerOf(frame('A', new Uint8Array(100)).subarray(0, length), 10);
  await expect(reader.next()).rejects.toThrow('middle of an answer');
});

test('unknown kinds and impossible lengths are errors', async () => {
  await expect(readerOf(frame('Z', {}), 9).reader.next()).rejects.toThrow('unknown kind: byte 90');
  const long = frame('A', {});
  new DataView(long.buffer).setUint32(1, FRAME_BYTES_MAX + 1, true);
  await expect(readerOf(long, 9).reader.next()).rejects.toThrow('more than');
});
